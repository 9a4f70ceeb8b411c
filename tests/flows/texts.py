"""Flows as text, and their findings."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.core.diagnostics import Diagnostic
from penstock.flows.parsed_flow import ParsedFlow
from penstock.flows.parsing import read_flow

TOP = "name: demo\ndescription: d\nsteps:\n"
"""Three lines; the first step is on line 4."""


def finding_lines(findings: Iterable[Diagnostic]) -> list[str]:
    """Return findings as lines of text, without the file and the column."""
    return [f"{each.line} {each.severity} {each.code}: {each.text}" for each in findings]


def read(steps: str, file: str = "flows/demo.yaml") -> ParsedFlow:
    """Read a flow of some steps."""
    return read_flow(TOP + steps, file)


def findings_of(text: str | bytes) -> list[str]:
    return finding_lines(read_flow(text).findings)


def findings_of_step(fields: str) -> list[str]:
    """Return the findings for a step on line 4, given as the inside of a YAML flow mapping."""
    return finding_lines(read(f"- {{{fields}}}\n").findings)


def step_of(fields: str) -> Any:
    """Return a valid step."""
    flow = read(f"- {{{fields}}}\n").flow
    assert flow is not None
    return flow.steps[0]


def attributes(step: Any, *names: str) -> Mapping[str, Any]:
    return {name: getattr(step, name) for name in names}
