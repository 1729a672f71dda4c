"""Array libraries under test: a law is written once in NumPy, and each operation runs in the library of a backend.

Every call checks on its way that the result belongs to the library and has the dtype that went in. JAX runs
compiled, in float64 by its scoped switch, and with strict promotion of dtypes.
"""

import contextlib
import copy
import dataclasses
import functools

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import torch

NAMESPACES = ("numpy", "jax", "torch", "array_api_strict")
DTYPES = ("float64", "float32")


@contextlib.contextmanager
def jax_precision(dtype="float64"):
    """JAX with 64-bit types for float64 only, and no silent promotion: float32 cannot turn into float64 unseen."""
    with jax.enable_x64(dtype == "float64"), jax.numpy_dtype_promotion("strict"):
        yield


@functools.cache
def _compiled(manifold, operation):
    return jax.jit(getattr(manifold, operation))


def compiled(manifold, operation):
    """The jitted operation; instances that differ only in a choice it does not depend on share one compilation."""
    alike = copy.copy(manifold)
    for name, table in {"retraction_name": "retractions", "transport_name": "transports"}.items():
        if hasattr(manifold, name) and operation != {"retraction_name": "retract"}.get(name, "transport"):
            object.__setattr__(alike, name, next(iter(getattr(manifold, table))))
    return _compiled(alike, operation)


@dataclasses.dataclass(frozen=True)
class Backend:
    """One array library and dtype: `backend(manifold, "retract", x, u)` on pytrees of NumPy arrays."""

    namespace: str
    dtype: str

    def __str__(self):
        return f"{self.namespace}-{self.dtype}"

    @property
    def epsilon(self):
        return float(np.finfo(self.dtype).eps)

    @property
    def tolerance(self):
        """What the laws allow: 1e-12 in float64, 1e-5 in float32."""
        return {"float64": 1e-12, "float32": 1e-5}[self.dtype]

    def few(self, instances):
        """Those to draw from: JAX compiles anew for each shape, so it gets the first of them only."""
        return instances[:1] if self.namespace == "jax" else instances

    def array(self, value):
        value = np.asarray(value, dtype=self.dtype)
        if self.namespace == "jax":
            return jnp.asarray(value)
        if self.namespace == "torch":
            return torch.from_numpy(value.copy())
        return array_api_strict.asarray(value) if self.namespace == "array_api_strict" else value

    def to_numpy(self, value):
        kinds = {
            "numpy": (np.ndarray, np.floating),
            "jax": jax.Array,
            "torch": torch.Tensor,
            "array_api_strict": type(array_api_strict.asarray(0.0)),
        }
        assert isinstance(value, kinds[self.namespace]), f"{type(value)} is not an array of {self.namespace}"
        assert str(value.dtype).rpartition(".")[2] == self.dtype, f"{self.dtype} became {value.dtype}"
        return np.asarray(value).astype(np.float64)

    def __call__(self, manifold, operation, *trees):
        context = jax_precision(self.dtype) if self.namespace == "jax" else contextlib.nullcontext()
        with context:
            function = compiled(manifold, operation) if self.namespace == "jax" else getattr(manifold, operation)
            result = function(*(jax.tree.map(self.array, tree) for tree in trees))
            return jax.tree.map(self.to_numpy, result)


BACKENDS = [Backend(namespace, dtype) for namespace in NAMESPACES for dtype in DTYPES]
DOUBLE = [backend for backend in BACKENDS if backend.dtype == "float64"]
