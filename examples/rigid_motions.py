"""Poses of a camera in SE(3), as a product of rotations and translations, from noisy sightings of known points.

python examples/rigid_motions.py [--poses 50] [--points 400]

Every pose (R, t) sees the point p at R p + t. A step looks at a few of the points from all poses at once; the result is
compared with the closed form, which needs all of them.
"""

import argparse

import jax.numpy as jnp
import numpy as np

import retrax as rx


def loss(pose: dict[str, jnp.ndarray], batch: dict[str, jnp.ndarray]) -> jnp.ndarray:
    """The mean of ‖R p + t - y‖² over points and poses."""
    predicted = jnp.einsum("kij,nj->nki", pose["rotation"], batch["point"]) + pose["translation"]
    return jnp.mean(jnp.sum((predicted - batch["seen"]) ** 2, axis=-1))


def scene(poses: int, points: int) -> dict[str, np.ndarray]:
    """Points, and where each pose sees them."""
    generator = np.random.default_rng(0)
    rotation = rx.Rotations(poses).random_point(generator.standard_normal((poses, 3, 3)))
    translation = 2 * generator.standard_normal((poses, 3))
    point = generator.standard_normal((points, 3))
    seen = np.einsum("kij,nj->nki", rotation, point) + translation
    return {"point": point, "seen": seen + 0.05 * generator.standard_normal(seen.shape)}


def closed_form(point: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best rotations and translations, by an SVD for each pose (Kabsch 1976)."""
    centre, seen_centre = point.mean(axis=0), seen.mean(axis=0)
    left, _, right = np.linalg.svd(np.einsum("nki,nj->kij", seen - seen_centre, point - centre))
    left[..., -1] *= np.linalg.det(left @ right)[:, None]
    rotation = left @ right
    return rotation, seen_centre - rotation @ centre


def main() -> None:
    """Find the poses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=50)
    parser.add_argument("--points", type=int, default=400)
    arguments = parser.parse_args()

    data = scene(arguments.poses, arguments.points)
    rotations = rx.Rotations(arguments.poses, retraction="cayley")
    poses = rx.Product({"rotation": rotations, "translation": rx.Euclidean(arguments.poses, 3)})
    problem = rx.Problem(loss, poses, data)
    result = rx.minimize(problem, rx.rsrm(), steps=3000, batch_size=10, dtype="float64")
    rotation, translation = closed_form(data["point"], data["seen"])
    cosine = (np.einsum("kij,kij->k", result.x["rotation"], rotation) - 1) / 2
    print(result)
    print(f"angle to the closed form: at most {np.degrees(np.arccos(np.clip(cosine, -1, 1))).max():.2f} degrees")
    print(f"distance to the closed form: at most {np.abs(result.x['translation'] - translation).max():.4f}")


if __name__ == "__main__":
    main()
