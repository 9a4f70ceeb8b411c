"""Findings in authored files, and suggestions of similar names."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from penstock.core.envelope import Json

ALLOWED_EDITS = 2
"""A name with at most this many edits is suggested, however short it is."""
MAX_NAME_LENGTH = 200
"""Longer names get no suggestion: the search would take too long."""


class Severity(StrEnum):
    """How severe a finding is."""

    ERROR = "error"
    WARNING = "warning"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One finding in an authored file."""

    code: str
    """A stable name such as `duplicate-tool`."""
    message: str
    file: str = ""
    """The path relative to the project."""
    line: int = 1
    column: int = 1
    severity: Severity = Severity.ERROR
    suggestion: str | None = None
    end_line: int = 0
    """The last line of the range; 0 means its first line."""
    end_column: int = 0
    """The column after the range; 0 means the one after its first character."""

    def __str__(self) -> str:
        """Return one line, `file:line:column: severity code: message; suggestion`."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        return " ".join(f"{place}{self.severity} {self.code}: {self.text}".splitlines())

    @property
    def text(self) -> str:
        """Return the message with the suggestion."""
        return f"{self.message}; {self.suggestion}" if self.suggestion else self.message

    @property
    def order(self) -> tuple[str, int, int, str]:
        """Return the key by which findings are sorted."""
        return self.file, self.line, self.column, self.code

    def to_wire(self) -> Json:
        """Return the finding as JSON."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line or self.line,
            "end_column": self.end_column or self.column + 1,
            "severity": self.severity.value,
            "code": self.code,
            "message": self.text,
            "suggestion": self.suggestion,
        }

    def to_finding(self) -> Json:
        """Return the finding for tools of authors, without the file, which they know."""
        wire = {"line": self.line, "severity": self.severity.value, "message": self.message}
        return wire | ({"suggestion": self.suggestion} if self.suggestion else {})


def has_error(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether one of the findings is an error, so that the file is not used."""
    return any(each.severity is Severity.ERROR for each in diagnostics)


def errors_of(diagnostics: Iterable[Diagnostic]) -> Sequence[Diagnostic]:
    """Return the errors among findings."""
    return [each for each in diagnostics if each.severity is Severity.ERROR]


def sort(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings by file, line, column and code, each once."""
    return sorted(dict.fromkeys(diagnostics), key=lambda each: (each.order, each.message))


def in_file_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings of one file by line, of one line the errors first, each once."""
    return sorted(
        dict.fromkeys(diagnostics),
        key=lambda each: (each.line, each.severity is not Severity.ERROR, each.order, each.message),
    )


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name with the fewest edits: at most two, or a third of the longer name.

    Of several names, return the first in alphabetical order.
    """
    best: tuple[int, str] | None = None
    for candidate in set(names):
        longer = max(len(name), len(candidate))
        most = max(ALLOWED_EDITS, longer // 3)
        if best:
            most = min(most, best[0])
        if longer > MAX_NAME_LENGTH or abs(len(name) - len(candidate)) > most:
            continue
        scored = (edits(name, candidate), candidate)
        if scored[0] <= most and (best is None or scored < best):
            best = scored
    return best and best[1]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for a similar or longer name, or an empty text."""
    known = sorted(names)
    longer = (each for each in known if name and each.startswith(name))
    near = nearest(name, known) or next(longer, None)
    return f" Did you mean {near!r}?" if near else ""


def edits(one: str, other: str) -> int:
    """Return the edit distance: how many characters to insert, delete or replace.

    The algorithm of Myers (1999): each column of the distance table is the bits of two numbers,
    `up` where the distance grows from one row to the next, `down` where it falls.
    """
    if not one:
        return len(other)
    last = 1 << (len(one) - 1)
    everything = 2 * last - 1
    where: dict[str, int] = {}
    for row, character in enumerate(one):
        where[character] = where.get(character, 0) | 1 << row
    up, down, count = everything, 0, len(one)
    for character in other:
        match = where.get(character, 0)
        across = (((match & up) + up) ^ up) | match
        grows, falls = down | ~(across | up), up & across
        count += bool(grows & last) - bool(falls & last)
        grows = grows << 1 | 1
        up = (falls << 1 | ~(match | down | grows)) & everything
        down = grows & (match | down) & everything
    return count
