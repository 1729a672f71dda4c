"""The reference of the public names: a directive with an example that is run, and tables made from the code.

    ```{reference} retrax.rsrm
    print(rx.rsrm(0.1))
    ```

documents `retrax.rsrm` from its docstring, shows the example, runs it, and shows what it prints. The examples of a page
share their variables. A module is documented without an example.
"""

import contextlib
import importlib
import inspect
import io
import re
import traceback
from types import ModuleType
from typing import Any

import docstrings
import tables
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

Namespaces = dict[str, dict[str, Any]]


def resolve(name: str) -> Any:
    """The object of a dotted name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last) if module else importlib.import_module(name)


class Reference(SphinxDirective):
    """`{reference} NAME`, with the example as its content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The documentation, the example, and what the example prints."""
        name = self.arguments[0]
        try:
            written = resolve(name)
        except (ImportError, AttributeError):
            raise self.error(f"there is no {name}") from None
        found = self.parse_text_to_nodes(_autodoc(name, written), allow_section_headings=False)
        if not self.content:
            return found
        code = "\n".join(self.content)
        found.append(nodes.literal_block(code, code, language="python"))
        if self.config.reference_execute:
            output = self._run(name, code)
            found += [nodes.literal_block(output, output, language="none", classes=["printed"])] if output else []
        return found

    def parse_text_to_nodes(self, text: str, **options: Any) -> list[nodes.Node]:
        """Parse reStructuredText, also on a MyST page."""
        directive = importlib.import_module("myst_parser.mocking")
        if isinstance(self.state, directive.MockState):
            text = "```{eval-rst}\n" + text + "\n```"
        return super().parse_text_to_nodes(text, **options)

    def _run(self, name: str, code: str) -> str:
        namespace = _namespaces.setdefault(self.env.docname, {"__name__": self.env.docname})
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"<example of {name}>", "exec"), namespace)
        except Exception:
            raise self.error(f"the example of {name} fails:\n{traceback.format_exc()}") from None
        return printed.getvalue().rstrip()


_namespaces: Namespaces = {}


class Prelude(SphinxDirective):
    """`{prelude}`: what the examples of a page begin with; shown and run."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The code, shown."""
        code = "\n".join(self.content)
        _namespaces[self.env.docname] = namespace = {"__name__": self.env.docname}
        if self.config.reference_execute:
            exec(compile(code, f"<prelude of {self.env.docname}>", "exec"), namespace)
        return [nodes.literal_block(code, code, language="python")]


class Table(SphinxDirective):
    """`{table-of} methods` or `{table-of} manifolds`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A table made from the code."""
        makers = {"methods": tables.methods, "manifolds": tables.manifolds}
        return self.parse_text_to_nodes(makers[self.arguments[0]]())


def _autodoc(name: str, written: Any) -> str:
    if isinstance(written, ModuleType):
        members = "" if hasattr(written, "__all__") else "\n   :members:"
        return f".. automodule:: {name}{members}\n"
    if inspect.isclass(written) and issubclass(written, BaseException):
        return f".. autoexception:: {name}\n   :members:\n"
    if inspect.isclass(written):
        return f".. autoclass:: {name}\n   :members:\n"
    if callable(written) and hasattr(written, "__name__"):
        return f".. autofunction:: {name}\n"
    return f".. py:data:: {name}\n\n   {DATA[name]}\n"


DATA = {  # objects whose own docstring is that of their class
    "retrax.datasets.REGISTRY": "Every real data set that Retrax knows, by name.",
    "retrax.sources.Payload": "What a feed hands over: :py:obj:`Samples`, or a :py:obj:`LargeBatch`.",
}


def documented(pages: dict[str, str]) -> dict[str, str]:
    """Every name that the given pages (name: text) document, with its example."""
    found = {}
    for text in pages.values():
        for name, example in re.findall(r"^```\{reference\} (\S+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            found[name] = example
    return found


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("reference", Reference)
    app.add_directive("prelude", Prelude)
    app.add_directive("table-of", Table)
    app.add_config_value("reference_execute", True, "env")
    app.connect("autodoc-process-docstring", _before_napoleon, priority=100)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=900)
    return {"parallel_read_safe": False}


_attributes: dict[str, list[str]] = {}


def _before_napoleon(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = docstrings.to_rst(lines)
    if what in ("attribute", "property", "data"):  # napoleon would read "None: all of them" as a type and its meaning
        _attributes[name] = list(lines)


def _after_napoleon(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _attributes.pop(name, lines)
