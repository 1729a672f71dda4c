"""Imports point downwards: between the folders and modules of the library, in the order that CONTRIBUTING tells."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "retrax"


def layers(text):
    """The layers that CONTRIBUTING names, top to bottom; the modules of a layer do not import each other."""
    (block,) = re.findall(r"^ *```layers\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)
    return [line.split() for line in block.splitlines()]


def modules():
    """The folders and modules at the top of the package; the package's own is `__init__`."""
    return {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def imported(tree, package):
    """The dotted names that a module imports, wherever in its text; `package` is where relative names begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*parent, *([node.module] if node.module else [])])
            yield from (f"{module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


def imports():
    """(who imports, what, in which file) between the folders and modules of the package."""
    known = modules()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        here = place.parts[0].removesuffix(".py")
        for name in imported(ast.parse(path.read_text()), ("retrax", *place.parts[:-1])):
            first, *rest = name.split(".")
            if first == "retrax":
                there = rest[0] if rest and rest[0] in known else "__init__"
                if there != here:
                    yield here, there, place


LAYERS = layers((ROOT / "CONTRIBUTING.md").read_text())


def test_every_folder_and_module_has_a_layer():
    named = [name for layer in LAYERS for name in layer]
    assert sorted(named) == sorted(modules())


def test_imports_point_downwards():
    depth = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    found = list(imports())
    assert len(found) > 100, "the imports were not found"
    wrong = [f"{place}: {here} imports {there}" for here, there, place in found if depth[here] >= depth[there]]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import retrax.run", ["retrax.run"]),
        ("from retrax import run, sweep", ["retrax.run", "retrax.sweep"]),
        ("def f():\n    from ..run import Run", ["retrax.run.Run"]),
        ("from . import jax", ["retrax.drivers.jax"]),
        ("importlib.import_module('retrax.cli')", ["retrax.cli"]),
    ],
)
def test_imports_of_every_kind_are_seen(text, expected):
    assert list(imported(ast.parse(text), ("retrax", "drivers"))) == expected
