"""What networks ask for, by hand in NumPy: one-gradient recursive momentum, unbiased moments, weight decay."""

import dataclasses

import numpy as np
import pytest

import retrax as rx
from retrax.estimators import Plain
from retrax.methods import Method

from . import hand_computed
from .small_problems import case
from .test_hand_computed import check_run


@pytest.mark.parametrize("manifold", ["stiefel qr projection", "spd exp parallel"])
def test_mars_is_the_approximate_form_of_its_paper(manifold):
    method = rx.mars(0.2, rho=0.3, gamma=0.4)
    by_hand = lambda *given: hand_computed.mars(*given, lambda t: 0.2 * t**-0.5, 0.3, 0.4)  # noqa: E731
    check_run(case(manifold), method, by_hand)


def test_mars_refuses_what_is_no_number():
    with pytest.raises(TypeError, match="gamma must be a number"):
        rx.mars(0.1, gamma="small")


def steps_of(method, gradients, manifold, x):
    """The points of a method that sees the given gradients one after another."""
    state, points = method.init(manifold, x), [x]
    for t, gradient in enumerate(gradients, start=1):
        oracle = lambda x, gradient=gradient: gradient  # noqa: E731
        advance = method.restart if t == 1 else method.step
        x, state = advance(manifold, oracle, x, state, float(t))
        points.append(x)
    return points


GRADIENTS = np.random.default_rng(2).standard_normal((5, 3))


@pytest.mark.parametrize("maximum", [True, False])
def test_unbiased_norms_are_adams(maximum):
    make = rx.ramsgrad if maximum else rx.radam
    method = make(0.1, momentum=0.5, beta=0.8, epsilon=1e-8)
    method = dataclasses.replace(method, scaling=dataclasses.replace(method.scaling, unbiased=True))
    found = steps_of(method, GRADIENTS, rx.Euclidean(3), np.zeros(3))
    x, v, largest, d = np.zeros(3), 0.0, 0.0, GRADIENTS[0]
    for t, g in enumerate(GRADIENTS, start=1):
        d = 0.5 * d + 0.5 * g
        v = 0.8 * v + 0.2 * g @ g
        largest = max(largest, v / (1 - 0.8**t))
        x = x - 0.1 * t**-0.5 * d / (np.sqrt(largest if maximum else v / (1 - 0.8**t)) + 1e-8)
        np.testing.assert_allclose(found[t], x, atol=1e-14)


def test_unbiased_entries_are_adams():
    method = rx.crmsprop(0.1, beta=0.8)
    method = dataclasses.replace(method, scaling=dataclasses.replace(method.scaling, unbiased=True))
    found = steps_of(method, GRADIENTS, rx.Euclidean(3), np.zeros(3))
    x, v = np.zeros(3), np.zeros(3)
    for t, g in enumerate(GRADIENTS, start=1):
        v = 0.8 * v + 0.2 * g**2
        x = x - 0.1 * t**-0.5 * g / (np.sqrt(v / (1 - 0.8**t)) + 1e-8)
        np.testing.assert_allclose(found[t], x, atol=1e-14)


def test_weight_decay_shrinks_beside_the_scaling_and_leaves_the_sphere_alone():
    decay = rx.scalings.WeightDecay(rx.scalings.Normalised(), 0.3)
    method = Method(Plain(), decay, rx.schedules.constant(0.1))
    x = np.array([2.0, -1.0, 0.5])
    found = steps_of(method, GRADIENTS[:1], rx.Euclidean(3), x)[1]
    np.testing.assert_allclose(found, x - 0.1 * GRADIENTS[0] / np.linalg.norm(GRADIENTS[0]) - 0.1 * 0.3 * x, atol=1e-14)
    unit, tangent = np.array([0.0, 1.0, 0.0]), np.array([0.3, 0.0, -0.2])
    plain = Method(Plain(), rx.scalings.Normalised(), rx.schedules.constant(0.1))
    points = [steps_of(one, [tangent], rx.Sphere(3), unit)[1] for one in (method, plain)]
    np.testing.assert_allclose(*points, atol=1e-15)


def test_rasa_scales_the_entries_of_a_vector_whatever_the_sides():
    for sides in ("L", "R", "LR"):
        found = steps_of(rx.rasa(0.1, sides, 0.9), GRADIENTS[:2], rx.Euclidean(3), np.zeros(3))
        x, v, largest = np.zeros(3), np.zeros(3), np.zeros(3)
        for t, g in enumerate(GRADIENTS[:2], start=1):
            v = 0.9 * v + 0.1 * g**2
            largest = np.maximum(largest, v)
            x = x - 0.1 * t**-0.5 * g / np.sqrt(largest + 1e-8)
        np.testing.assert_allclose(found[-1], x, atol=1e-14)
