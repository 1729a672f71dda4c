"""Hyperbolic embeddings: loss and gradient by hand, negatives, evaluation as scikit-learn has it, no NaN anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import retrax as rx
from retrax.problems import embedding


def tree(nodes=31):
    """The relations of a binary tree: i is a child of (i - 1) // 2."""
    return rx.datasets.transitive_closure([(i, (i - 1) // 2) for i in range(1, nodes)])


@pytest.fixture
def problem():
    return rx.problems.Embedding(tree(), 3, group=5, negatives=12)


@pytest.fixture
def table(problem):
    return np.random.default_rng(1).uniform(-0.5, 0.5, problem.manifold.ambient_shape)


def distance(u, w):
    gaps = (1 - u @ u) * (1 - w @ w)
    return np.arccosh(1 + 2 * np.sum((u - w) ** 2) / gaps)


def test_loss_by_hand(problem, table):
    batch = problem.draw(np.random.default_rng(0), 4)
    relations = {tuple(pair) for pair in problem.relations.tolist()}
    by_hand = []
    for nodes, related, pool in zip(batch["nodes"], batch["related"], batch["negatives"], strict=True):
        for u, places in zip(nodes, related, strict=True):
            negatives = {int(w) for w in pool} - {w for w in range(31) if (u, w) in relations} - {int(u)}
            rest = sum(np.exp(-distance(table[u], table[w])) for w in negatives)
            costs = [np.log1p(rest / np.exp(-distance(table[u], table[v]))) for v in places if v != u]
            by_hand.append(sum(costs))
    with jax.enable_x64(True):
        assert float(jax.jit(embedding.loss)(jnp.asarray(table), batch)) == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_every_relation_is_drawn_equally_often():
    """Also those of a node with more than fit into one part of it."""
    pairs = np.array([(0, v) for v in range(2, 30)] + [(1, 2), (1, 3)])
    problem = rx.problems.Embedding(pairs, 2, group=50, negatives=4)
    batch = problem.draw(np.random.default_rng(0), 400)
    u = np.repeat(batch["nodes"][..., None], batch["related"].shape[-1], axis=-1)
    real = batch["related"] != u
    found, counts = np.unique(np.stack([u[real], batch["related"][real]], axis=1), axis=0, return_counts=True)
    assert problem.parts == 4  # 28 relations are 12 + 12 + 4
    np.testing.assert_array_equal(found, pairs)
    np.testing.assert_allclose(counts, 400 * 50 / 4, rtol=0.05)


def test_what_is_related_starts_close(problem):
    x = problem.initial_point(seed=3)
    leaves = np.arange(15, 31)
    near = np.linalg.norm(x[leaves] - x[(leaves - 1) // 2], axis=1)
    far = np.linalg.norm(x[leaves] - x[np.roll(leaves, 8)], axis=1)
    assert np.mean(near) < 0.8 * np.mean(far)
    assert 0 < np.max(np.abs(x)) < 0.01


def test_gradient_is_that_of_finite_differences(problem, table):
    """Automatic differentiation is NaN where a u is its own, forbidden, negative."""
    batch = problem.draw(np.random.default_rng(0), 4)
    directions = np.random.default_rng(2).normal(size=(10, *table.shape))
    with jax.enable_x64(True):
        loss = jax.jit(jax.vmap(embedding.loss, in_axes=(0, None)))
        ahead, back = (np.asarray(loss(table + step * directions, batch)) for step in (1e-6, -1e-6))
        gradient = np.asarray(jax.jit(embedding.ambient_gradient)(jnp.asarray(table), batch))
    np.testing.assert_allclose(np.sum(gradient * directions, axis=(1, 2)), (ahead - back) / 2e-6, rtol=1e-7)


def test_gradient_is_finite_where_points_coincide(problem):
    batch = problem.draw(np.random.default_rng(0), 4)
    same = jnp.full(problem.manifold.ambient_shape, 0.3)
    assert bool(jnp.all(jnp.isfinite(jax.jit(embedding.ambient_gradient)(same, batch))))


def test_reconstruction_as_scikit_learn_has_it(problem, table):
    ranks, precisions = [], []
    for u in range(1, 31):
        related = problem.relations[problem.relations[:, 0] == u, 1]
        distances = np.array([distance(table[u], w) if i != u else np.inf for i, w in enumerate(table)])
        others = np.delete(np.arange(31), u)
        precisions.append(average_precision_score(np.isin(others, related), -distances[others]))
        unrelated = np.setdiff1d(others, related)
        ranks += [1 + np.sum(distances[unrelated] < distances[v]) for v in related]
    found = problem.reconstruction(table)
    assert found.mean_rank == pytest.approx(np.mean(ranks), rel=1e-12)
    assert found.mean_average_precision == pytest.approx(np.mean(precisions), rel=1e-12)


def test_a_tree_is_embedded():
    problem = rx.problems.Embedding(tree(), 2, group=10, negatives=20)
    burn_in = rx.minimize(problem, rx.rsgd(rx.schedules.constant(0.1)), steps=200, batch_size=1, progress=False)
    result = rx.minimize(
        problem, rx.rsgd(rx.schedules.constant(1.0)), x0=burn_in.x, steps=1500, batch_size=1, record=500, progress=False
    )
    found = problem.reconstruction(result.x)
    assert found.mean_average_precision > 0.9
    assert found.mean_rank < 1.3


def test_no_step_size_leads_to_nan():
    """From 10⁻³ to 10 in single precision; `benchmarks/hyperbolic.py` does it with 20 seeds and in both precisions."""
    problem = rx.problems.Embedding(tree(), 3, group=10, negatives=10)
    for rate in (1e-3, 1.0, 10.0):
        method = rx.rsgd(rx.schedules.constant(rate))
        result = rx.minimize(problem, method, steps=200, batch_size=1, record=200, dtype="float32", progress=False)
        assert np.isfinite(result.x).all()
        assert np.isfinite(result.history["loss"]).all()


def test_what_relations_cannot_be():
    for relations, words in (
        ([(0, 1, 2)], "pairs"),
        ([(0.5, 1)], "pairs"),
        ([(0, -1)], "from 0 on"),
        ([(0, 1), (2, 2)], "relates node 2 to itself"),
    ):
        with pytest.raises(ValueError, match=words):
            rx.problems.Embedding(relations, 2)
