"""What makes a class with annotated fields a frozen dataclass, so that nothing a manifold depends on can be forgotten.

Compiled programs, checkpoints and PyTorch's state dicts take two manifolds for the same when they compare equal or
print alike. A parameter that equality overlooked would give one manifold the results of another.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, dataclass_transform


def aliased(*, alias: str, default: Any, kw_only: bool) -> Any:
    """A field that the constructor takes by another name, where its own would hide a method."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"alias": alias})


@dataclass_transform(frozen_default=True, field_specifiers=(aliased, dataclasses.field))
class FrozenFields:
    """Subclasses are frozen dataclasses without asking for it: equality, hash and repr come from all their fields."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)(cls)
        del cls.__setattr__, cls.__delattr__  # Ours say what to do instead.
        for field in _fields(cls):
            if not field.compare or field.hash is False:
                raise TypeError(
                    f"{cls.__name__}.{field.name} is declared with compare=False or hash=False: two manifolds that "
                    "differ in it would be taken for one; leave these options out"
                )
        inherited = getattr(super(cls, cls), "__dataclass_fields__", {})
        if "__init__" not in vars(cls) and any(inherited.get(field.name) is not field for field in _fields(cls)):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]

    def _construct(self, **values: Any) -> None:
        """What every constructor does: store the fields, then check them."""
        self._store(**values)
        self.__post_init__()
        try:
            hash(self)
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__} cannot be compared: {error}; the fields of a manifold are numbers, strings and "
                "tuples of these, never arrays or lists (arrays belong to the data of a problem)"
            ) from None

    def _store(self, **values: Any) -> None:
        """Write fields, which is for constructors and `__post_init__` only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __post_init__(self) -> None:
        """Check the fields, and bring them into their normal form."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (field.name for field in _fields(self)):
            self._refuse_change(f"set {name}")
        raise TypeError(
            f"{type(self).__name__} has no field {name!r}, so two manifolds that differ in it would be taken for one; "
            f"declare it in the class body ('{name}: float') and leave __init__ out"
        )

    def __delattr__(self, name: str) -> None:
        self._refuse_change(f"delete {name}")

    def _refuse_change(self, what: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot {what} of {self}: manifolds do not change; make another one")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((type(self).__qualname__, _values(self)))

    def __repr__(self) -> str:
        values = dict(zip((field.name for field in _fields(self)), _values(self), strict=True))
        shown = []
        for field in sorted(_fields(self), key=_is_choice):
            if field.default is not dataclasses.MISSING:
                shown.append(f"{_argument(field)}={values[field.name]!r}")
            elif field.name == "shape":  # Given as so many sizes.
                shown.extend(map(repr, values[field.name]))
            else:
                shown.append(repr(values[field.name]))
        return f"{type(self).__name__}({', '.join(shown)})"


def _fields(owner: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(owner)


def _argument(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get("alias", field.name)


def _is_choice(field: dataclasses.Field[Any]) -> bool:
    """Retraction and transport, declared first in the base class, are shown last."""
    return bool(field.kw_only)


def _values(manifold: FrozenFields) -> tuple[Any, ...]:
    """The values of all fields, refusing a manifold that carries more than it declares."""
    names = _names(type(manifold))  # type: ignore[arg-type]
    if len(vars(manifold)) > len(names):
        undeclared = sorted(set(vars(manifold)) - set(names))
        raise TypeError(
            f"{type(manifold).__name__} carries {', '.join(undeclared)} beside its fields, which equality would not "
            f"see; declare it in the class body ('{undeclared[0]}: float')"
        )
    return tuple(getattr(manifold, name) for name in names)


@functools.cache
def _names(cls: type[FrozenFields]) -> tuple[str, ...]:
    """The names of the fields (looked up once: eager steps compare manifolds every time)."""
    return tuple(field.name for field in _fields(cls))


def _constructor(cls: type[FrozenFields]) -> Callable[..., None]:
    """The `__init__` of a class: its fields by position or name, then checks."""
    kinds = {False: inspect.Parameter.POSITIONAL_OR_KEYWORD, True: inspect.Parameter.KEYWORD_ONLY}
    fields = sorted((field for field in _fields(cls) if field.init), key=_is_choice)
    parameters = [
        inspect.Parameter(_argument(field), kinds[_is_choice(field)], default=_default(field), annotation=field.type)
        for field in fields
    ]
    signature = inspect.Signature(parameters)

    def construct(self: FrozenFields, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{error} in {type(self).__name__}{signature}") from None
        bound.apply_defaults()
        self._construct(**{field.name: bound.arguments[_argument(field)] for field in fields})

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    construct.__signature__ = inspect.Signature([this, *parameters])  # type: ignore[attr-defined]
    construct.__name__, construct.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    return construct


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()  # Values that can be hashed can be shared.
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
