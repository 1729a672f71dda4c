"""Docstrings are plain text with `code` in backticks, for `help()`; here they become reStructuredText, word for word.

Without this, |x| would be a substitution, x* emphasis and components_ a link.
"""

import re

_NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?$")
_PARAMETER = re.compile(r"\w[\w, ]* : ")  # numpydoc's "name : type", which napoleon reads and escapes by itself


def to_rst(lines: list[str]) -> list[str]:
    """The same text in reStructuredText's notation."""
    result: list[str] = []
    literal: int | None = None  # the indentation of the text that announced a block of code
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and (not line.strip() or indent > literal):
            result.append(line)
            continue
        literal = indent if _announces_code(lines, number, indent) else None
        text = line if _PARAMETER.match(line.strip()) else _escaped(line)
        result.append(text + ":" if literal is not None else text)
    return result


def _announces_code(lines: list[str], number: int, indent: int) -> bool:
    """Whether a line ends with a colon, and an indented block stands after the empty line behind it."""
    if not lines[number].rstrip().endswith(":") or number + 2 >= len(lines) or lines[number + 1].strip():
        return False
    following = lines[number + 2]
    return bool(following.strip()) and len(following) - len(following.lstrip()) > indent


def _escaped(line: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", line)
    return "".join(_code(part) if part.startswith("`") else _plain(part) for part in parts)


def _code(part: str) -> str:
    text = part.strip("`")
    return f":py:obj:`{text}`" if _NAME.match(text) and part.count("`") == 2 else f"``{text}``"


def _plain(part: str) -> str:
    part = part.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*")
    return re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part)
