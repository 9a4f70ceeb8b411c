"""One finding in an authored file, and the nearest of some names."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding in an authored file."""

    code: str
    """A stable name such as `duplicate-tool`."""
    message: str
    file: str = ""
    """Relative to the project."""
    line: int = 1
    column: int = 1
    severity: Severity = Severity.ERROR
    suggestion: str | None = None

    def __str__(self) -> str:
        """Return one line, `file:line:column: severity code: message; suggestion`."""
        hint = f"; {self.suggestion}" if self.suggestion else ""
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        return f"{place}{self.severity} {self.code}: {self.message}{hint}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that looks most like this one, or None."""
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?`, or nothing."""
    near = nearest(name, names)
    return f" Did you mean {near!r}?" if near else ""
