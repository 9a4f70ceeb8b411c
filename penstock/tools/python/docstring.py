"""The source of a function as text: its docstring, and the lines of its parameters.

`parse_docstring` reads Google's `Args:`, NumPy's underlined `Parameters` and Sphinx's `:param x:`,
also mixed in one docstring. The text of a parameter goes into the schema. Everything else stays in
the description, each section under a plain heading, and no line is lost. No library is used: griffe
reads these styles and Python itself, and takes 106 ms to import (decision 032).
Proof: `tests/tools/python/test_docstring.py`.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

_GOOGLE = re.compile(
    r"(?:(?:keyword |other )?(?:args|arguments|parameters|params)):[ \t]*", re.IGNORECASE
)
_NUMPY = re.compile(r"(?:other )?parameters", re.IGNORECASE)
_UNDERLINE = re.compile(r"-{3,}[ \t]*")
_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_FIELD = re.compile(r":(\w+)(?:\s+([^:]*?))?:(?:\s+(.*))?")
_PARAMETER_FIELDS = {"param", "parameter", "arg", "argument", "key", "keyword"}
_DROPPED_FIELDS = {"type", "rtype", "kwtype"}
_TITLES = {"return": "Returns", "raise": "Raises", "except": "Raises", "exception": "Raises"}
_BLANK_LINES = re.compile(r"\n{3,}")

_Entry = tuple[list[str], str]
"""The parameters that a line begins to describe, and the first line of their text."""


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description of the function, and the text of each parameter."""
    reader = _Reader(text)
    reader.read()
    description = _BLANK_LINES.sub("\n\n", "\n".join(reader.description)).strip()
    return description, reader.parameters


class _Reader:
    """Reads one docstring line by line."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._at = 0
        self.description: list[str] = []
        self.parameters: dict[str, str] = {}

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            # A heading without indented lines below it is a sentence that ends with a colon.
            if _GOOGLE.fullmatch(line) and self._depth(self._at + 1):
                self._at += 1
                self._google(line)
            elif self._is_underlined():
                self._at += 2
                self._numpy(line.strip())
            elif field := _FIELD.fullmatch(line):
                self._at += 1
                self._field(*field.groups())
            else:
                self.description.append(line)
                self._at += 1

    def _google(self, heading: str) -> None:
        """Read the entries of a Google section: all indented lines."""
        indent = self._depth(self._at)
        lines = self._while(lambda at: not self._lines[at].strip() or self._depth(at) > 0)
        entries = [(line, _google_entry(line, indent)) for line in lines]
        if any(entry for _, entry in entries):
            self._parameters(entries)
        else:  # not a section of parameters after all: keep its lines
            self.description += [heading, *(line for line, _ in entries)]

    def _numpy(self, heading: str) -> None:
        """Read a NumPy section up to the next heading, or to the prose after it."""
        is_of_parameters = _NUMPY.fullmatch(heading) is not None
        lines = self._while(self._section_continues(is_of_parameters=is_of_parameters))
        entries = [(line, _numpy_entry(line)) for line in lines]
        if is_of_parameters and any(entry for _, entry in entries):
            self._parameters(entries)
        elif not is_of_parameters or any(line.strip() for line, _ in entries):
            indented = (f"    {line}".rstrip() for line, _ in entries)
            self.description += [f"{heading}:", *indented, ""]

    def _section_continues(self, *, is_of_parameters: bool) -> Callable[[int], bool]:
        """Return a test for the lines of the NumPy section that begins here.

        A paragraph without indentation ends the section, unless it is an entry: in a section of
        parameters a name on its own line, in any other section a line above indented ones.
        """
        start = self._at
        while start < len(self._lines) and not self._lines[start].strip():
            start += 1

        def continues(at: int) -> bool:
            if self._is_underlined(at):
                return False
            line = self._lines[at]
            if at <= start or self._lines[at - 1].strip() or not line.strip() or _indent(line):
                return True
            if is_of_parameters:
                return _numpy_entry(line) is not None
            below = self._lines[at + 1 : at + 2]
            return any(each.strip() and _indent(each) for each in below)

        return continues

    def _parameters(self, entries: list[tuple[str, _Entry | None]]) -> None:
        """Read entries. Lines above the first entry belong to the description."""
        names: list[str] = []
        above: list[str] = []
        for line, entry in entries:
            if entry:
                names, text = entry
                self.parameters |= dict.fromkeys(names, text)
            elif names:
                self._continue(names, line)
            else:
                above.append(line)
        if above:
            self.description += ["", *dedent("\n".join(above)).splitlines(), ""]

    def _field(self, kind: str, about: str | None, text: str | None) -> None:
        """Read a Sphinx field and the indented lines that continue it."""
        more = self._while(lambda at: bool(self._lines[at].strip()) and self._depth(at) > 0)
        whole = " ".join([*filter(None, [text]), *(line.strip() for line in more)])
        if kind in _PARAMETER_FIELDS and about:
            self.parameters[about.split()[-1].lstrip("*")] = whole
        elif kind not in _DROPPED_FIELDS:
            title = _TITLES.get(kind.removesuffix("s"), kind.capitalize())
            self.description.append(f"{f'{title} {about}' if about else title}: {whole}".rstrip())

    def _continue(self, names: list[str], line: str) -> None:
        for name in names:
            self.parameters[name] = f"{self.parameters[name]} {line.strip()}".strip()

    def _while(self, holds: Callable[[int], bool]) -> Iterator[str]:
        while self._at < len(self._lines) and holds(self._at):
            self._at += 1
            yield self._lines[self._at - 1]

    def _is_underlined(self, at: int | None = None) -> bool:
        first = self._at if at is None else at
        heading, *below = self._lines[first : first + 2]
        is_heading = bool(heading.strip()) and _indent(heading) == 0
        return is_heading and bool(below) and _UNDERLINE.fullmatch(below[0]) is not None

    def _depth(self, at: int) -> int:
        """Return the indentation of a line. A blank line has that of the next line with text."""
        for line in self._lines[at:]:
            if line.strip():
                return _indent(line)
        return 0


def _google_entry(line: str, indent: int) -> _Entry | None:
    entry = _ENTRY.fullmatch(line.strip()) if _indent(line) <= indent else None
    return ([entry[1]], entry[2]) if entry else None


def _numpy_entry(line: str) -> _Entry | None:
    entry = _NUMPY_ENTRY.fullmatch(line.strip()) if _indent(line) == 0 else None
    return ([each.strip().lstrip("*") for each in entry[1].split(",")], "") if entry else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class FunctionLines:
    """The lines of a function and its parameters in their file."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lines: dict[str, int] = {}
        try:
            source, first = inspect.getsourcelines(function)
            node = ast.parse(dedent("".join(source))).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            taken = node.args
            every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
            self._lines = {each.arg: first + each.lineno - 1 for each in every if each is not None}
            self._lines[""] = first + node.lineno - 1

    def line_of(self, parameter: str) -> int:
        """Return the line of a parameter, or of the function itself."""
        return self._lines.get(parameter, self._lines.get("", 1))
