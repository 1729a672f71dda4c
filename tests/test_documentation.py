"""The documentation tells the truth: every example in it runs, every public name has its place in the reference."""

import importlib
import pathlib
import re
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
PAGES = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
REFERENCE = [page for page in sorted((DOCS / "api").glob("*.md")) if page.name != "index.md"]
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "src" / "retrax").rglob("*.py"))
    if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
]

sys.path.insert(0, str(DOCS / "extensions"))

import docstrings  # noqa: E402
import tables  # noqa: E402


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # geoopt's, at its import
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page.name, "exec"), {"__name__": page.stem})


def examples(page):
    """(name, example) for each name that a page of the reference documents; the prelude has none."""
    found = r"^```\{(?:prelude|reference)\} ?(\S*)\n(.*?)^```"
    return re.findall(found, page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_reference_examples_run_and_are_about_their_name(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for name, example in examples(page):
        exec(compile(example, f"the example of {name}", "exec"), namespace)
        if name and example:
            assert re.search(rf"\b{name.rpartition('.')[2]}\b", example), f"the example of {name} does not use it"


def resolve(name):
    """The object of a dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last) if module else importlib.import_module(name)


def test_every_public_name_is_documented():
    names = {name: example for page in REFERENCE for name, example in examples(page) if name}
    objects = {id(resolve(name)) for name in names}
    public = [f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__]
    assert len(public) > 150
    assert [name for name in public if id(resolve(name)) not in objects] == []
    without = [name for name, example in names.items() if not example]
    assert [name for name in without if not isinstance(resolve(name), types.ModuleType)] == []


def test_links_lead_somewhere():
    missing = []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            made = page.parent / target
            if made.suffix == ".rst" and made.parent.name == "gallery":  # made from examples/ by `make docs`
                made = ROOT / "examples" / ("README.rst" if made.stem == "index" else f"{made.stem}.py")
            if not target.startswith("http") and not made.exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert not missing


def test_tables_have_every_method_and_manifold():
    import retrax as rx
    from retrax import methods

    recipes = [name for name in rx.__all__ if getattr(getattr(rx, name), "__module__", "") == methods.__name__]
    assert sorted(tables.METHODS) == sorted(set(recipes) - {"Method"})
    assert all(tables.reference(name) for name in tables.METHODS)
    manifolds = set(rx.manifolds.__all__) - {"Manifold", "Rotations", "Validated", "validated"}
    assert {name.partition(",")[0] for name in tables.EXAMPLES} == manifolds
    assert set(tables.COSTS) == set(tables.EXAMPLES)
    lines = tables.methods().splitlines()
    (rsrm,) = [line for line in lines if line.startswith("| `rx.rsrm(0.1)`")]
    assert "`RecursiveMomentum` | `Identity` | η₀ t^(-1/3) | 2b | 100, once" in rsrm
    assert "Han & Gao (2021)" in rsrm
    (stiefel,) = [line for line in tables.manifolds().splitlines() if line.startswith("| `Stiefel`")]
    assert "| qr, polar, cayley | projection, rotation ★ |" in stiefel


def test_docstrings_keep_their_bars_and_stars():
    given = ["|f(x)| and x* of components_, by `rsrm()` or `x[0]`:", "", "    |code| stays", "", "The end."]
    assert docstrings.to_rst(given) == [
        r"\|f(x)\| and x\* of components\_, by :py:obj:`rsrm()` or ``x[0]``::",
        "",
        "    |code| stays",
        "",
        "The end.",
    ]


def test_every_promise_names_a_test_that_is_there():
    root = pathlib.Path(__file__).parents[1]
    rows = [line for line in (root / "docs/promises.md").read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row != "| promise | test |"]
    assert len(promises) > 15
    for row in promises:
        named = re.findall(r"`(?:tests/(\w+)/)?(test_\w+\.py)`", row)
        assert named, row
        folder = ""
        for given, file in named:
            folder = given or folder
            assert (root / "tests" / folder / file).is_file(), f"{folder}/{file}"
