"""Globals that a script has not."""

import pytest

from penstock.core.diagnostics import Severity
from penstock.sandbox.reading.absent import absent_globals


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("new Intl.NumberFormat('de')", ["1:5 Intl"]),
        ("1;\n Temporal.Now.instant(); Temporal.Now", ["2:2 Temporal"]),
        ("Intl?.Collator", ["1:1 Intl"]),
        ("`${Intl.x}`", ["1:4 Intl"]),
        ("'Intl.NumberFormat' // Intl.x", []),
        ("a.Intl.b; MyIntl.c; typeof Intl", []),
        ("const Intl = {}; Intl.x", []),
        ("import { Intl } from './own.mjs'; Intl.x", []),
        ("import * as Temporal from './own.mjs'; Temporal.x", []),
        ("", []),
    ],
)
def test_what_is_used_and_not_there_is_a_warning(source: str, found: list[str]) -> None:
    """Design of the sandbox, §6.1 no. 13: "Warn on `Intl`/`Temporal` at load"."""
    told = list(absent_globals(source))
    names = [each.message.split('"')[1] for each in told]
    assert [f"{a.line}:{a.column} {n}" for a, n in zip(told, names, strict=True)] == found
    assert {each.severity for each in told} <= {Severity.WARNING}
