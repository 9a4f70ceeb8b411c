"""Globals that other engines have and a script has not: used, they are an error at the call."""

import re
from collections.abc import Iterator

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.sandbox.reading.mask import masked
from penstock.sandbox.reading.scan import Lines

_USED = re.compile(r"(?<![.\w$])(Intl|Temporal)\s*\??\.\s*[\w$]")
_OWN = re.compile(
    r"(?:\b(?:class|function|const|let|var)\b[\s*]*|[{,]\s*|\bas\s+|\bimport\s+)"
    r"(Intl|Temporal)(?![\w$.])"
)
"""A name that the module declares, or imports."""


def absent_globals(source: str) -> Iterator[Diagnostic]:
    """Yield a warning where a module of JavaScript uses one of them, once for each."""
    if not _USED.search(source):
        return
    mask, lines = masked(source), Lines(source)
    seen = {found[1] for found in _OWN.finditer(mask)}
    for found in _USED.finditer(mask):
        if found[1] in seen:
            continue
        seen.add(found[1])
        line, column = lines.place(found.start())
        yield Diagnostic(
            code="absent-global",
            message=f'there is no "{found[1]}" in a script',
            line=line,
            column=column,
            severity=Severity.WARNING,
            suggestion="format by hand, or with flo.time.formatUnixTimestamp",
        )
