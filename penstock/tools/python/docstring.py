"""What a docstring says: of the function, and of each parameter, in the styles people write.

Google's `Args:`, NumPy's underlined `Parameters` and Sphinx's `:param x:` are read, also mixed. A
parameter's text goes into the schema; everything else stays in the description, its sections under
a plain heading. No library is used: griffe, which reads these styles and Python itself, is a
hundred times this file (decision 032).
"""

import re
from collections.abc import Callable, Iterator

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


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the function, and its text about each parameter."""
    reading = _Reading(text)
    reading.read()
    said = _BLANK_LINES.sub("\n\n", "\n".join(reading.said)).strip()
    return said, reading.told


class _Reading:
    """One docstring, read line by line."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._at = 0
        self.said: list[str] = []
        self.told: dict[str, str] = {}

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if _GOOGLE.fullmatch(line) and self._depth(self._at + 1):
                self._at += 1
                self._google()
            elif self._is_underlined():
                self._at += 2
                self._numpy(line)
            elif field := _FIELD.fullmatch(line):
                self._at += 1
                self._field(*field.groups())
            else:
                self.said.append(line)
                self._at += 1

    def _google(self) -> None:
        """Read entries for as long as lines are indented."""
        name, indent = "", self._depth(self._at)
        for line in self._while(lambda at: not self._lines[at].strip() or self._depth(at) > 0):
            found = _ENTRY.fullmatch(line.strip()) if _indent(line) <= indent else None
            if found:
                name = found[1]
                self.told[name] = found[2]
            else:
                self._tell([name], line)

    def _numpy(self, heading: str) -> None:
        """Read a section to the next heading; one that is not of parameters stays."""
        lines = list(self._while(lambda at: not self._is_underlined(at)))
        if not _NUMPY.fullmatch(heading.strip()):
            self.said += [f"{heading.strip()}:", *(f"    {line}".rstrip() for line in lines), ""]
            return
        names: list[str] = []
        for line in lines:
            if _indent(line) == 0 and (found := _NUMPY_ENTRY.fullmatch(line.strip())):
                names = [each.strip().lstrip("*") for each in found[1].split(",")]
                self.told |= dict.fromkeys(names, "")
            else:
                self._tell(names, line)

    def _field(self, kind: str, about: str | None, text: str | None) -> None:
        """Read a field of Sphinx with the indented lines that go on with it."""
        more = self._while(lambda at: bool(self._lines[at].strip()) and self._depth(at) > 0)
        whole = " ".join([*filter(None, [text]), *(line.strip() for line in more)])
        if kind in _PARAMETER_FIELDS and about:
            self.told[about.split()[-1].lstrip("*")] = whole
        elif kind not in _DROPPED_FIELDS:
            title = _TITLES.get(kind.removesuffix("s"), kind.capitalize())
            self.said.append(f"{f'{title} {about}' if about else title}: {whole}".rstrip())

    def _tell(self, names: list[str], line: str) -> None:
        for name in names:
            if name:
                self.told[name] = f"{self.told[name]} {line.strip()}".strip()

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
        """Return how far a line is indented; a blank line is as deep as what follows it."""
        for line in self._lines[at:]:
            if line.strip():
                return _indent(line)
        return 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
