"""SE(3) as a product: poses are found from noisy observations of points, against the closed form of Kabsch."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

POSES, POINTS = 4, 60


def scene():
    """Points seen from several poses: y = R x + t + noise."""
    rng = np.random.default_rng(0)
    rotations = rx.SpecialOrthogonal(3).random_point(rng.standard_normal((POSES, 3, 3)))
    shifts = rng.standard_normal((POSES, 3))
    points = rng.standard_normal((POINTS, 3))
    seen = np.einsum("pij,nj->npi", rotations, points) + shifts + 0.01 * rng.standard_normal((POINTS, POSES, 3))
    return points, seen


def kabsch(points, seen):
    """The best rotation and shift for one pose, by an SVD."""
    centre, seen_centre = points.mean(axis=0), seen.mean(axis=0)
    left, _, right = np.linalg.svd((seen - seen_centre).T @ (points - centre))
    flip = np.diag([1.0, 1.0, np.linalg.det(left @ right)])
    rotation = left @ flip @ right
    return rotation, seen_centre - rotation @ centre


@pytest.mark.parametrize("retraction", ["exp", "cayley", "qr", "polar"])
def test_poses_are_found(retraction):
    points, seen = scene()
    poses = rx.Product(
        {
            "rotation": rx.Rotations(POSES, retraction=retraction),
            "translation": rx.Euclidean(POSES, 3),
        }
    )

    def loss(pose, batch):
        predicted = jnp.einsum("pij,nj->npi", pose["rotation"], batch["point"]) + pose["translation"]
        return jnp.mean(jnp.sum((predicted - batch["seen"]) ** 2, axis=(-2, -1)))

    start = {"rotation": np.broadcast_to(np.eye(3), (POSES, 3, 3)).copy(), "translation": np.zeros((POSES, 3))}
    best = [kabsch(points, seen[:, k]) for k in range(POSES)]
    # From the identity a rotation by nearly π is a saddle: start half a radian from the solution instead.
    turned = rx.SpecialOrthogonal(3)
    away = turned.random_tangent(start["rotation"], 0.2 * np.random.default_rng(1).standard_normal((POSES, 3, 3)))
    start["rotation"] = np.stack([r for r, _ in best]) @ turned.exp(start["rotation"], away)
    problem = rx.Problem(loss, poses, data={"point": points, "seen": seen})
    result = rx.minimize(problem, rx.rsrm(0.1), steps=3000, batch_size=10, x0=start, dtype="float64", seed=0)
    for k, (rotation, shift) in enumerate(best):
        assert np.max(np.abs(result.x["rotation"][k] - rotation)) <= 5e-3
        assert np.max(np.abs(result.x["translation"][k] - shift)) <= 5e-3
    assert np.max(np.abs(np.linalg.det(result.x["rotation"]) - 1)) <= 1e-12


def test_the_example_finds_them_too():
    example = Path(__file__).parents[2] / "examples" / "rigid_motions.py"
    command = [sys.executable, str(example), "--poses", "5", "--points", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("angle to the closed form: at most ")[1].split()[0]) < 0.5


def test_rotations_are_a_power():
    assert rx.Rotations(4, 2, retraction="qr") == rx.Power(rx.SpecialOrthogonal(3, retraction="qr"), 4, 2)
    with pytest.raises(ValueError, match="retraction"):
        rx.Rotations(4, retraction="straight")
