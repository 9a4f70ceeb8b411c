"""Runs all checks of a flow that look beyond a single field.

Not part of `checks`: kinds of steps import that package, and this file imports the kinds.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from penstock.core.diagnostics import Diagnostic, in_file_order
from penstock.flows.checks.context import CheckContext, FlowView
from penstock.flows.checks.control_flow import check_blocked_by, check_loops, check_targets
from penstock.flows.checks.external_references import check_agents, check_refs
from penstock.flows.checks.results import check_results
from penstock.flows.checks.templates import check_templates
from penstock.flows.parsed_flow import ParsedFlow
from penstock.flows.steps.table import KINDS

MAX_FINDINGS = 1000
"""Limit per check."""


def check_kinds(view: FlowView) -> Iterator[Diagnostic]:
    """Yield the findings that only steps of one kind have."""
    for parsed in view.steps:
        yield from KINDS[parsed.step.kind].check(parsed.step, parsed, view)


CHECKS = (
    check_agents,
    check_blocked_by,
    check_targets,
    check_loops,
    check_templates,
    check_results,
    check_refs,
    check_kinds,
)


def check_flow(read: ParsedFlow, check_context: CheckContext) -> Sequence[Diagnostic]:
    """Return all findings for a flow, from its text and its context, by line."""
    view = FlowView(read, check_context)
    findings: list[Diagnostic] = []
    for check in (_of_text, *CHECKS):
        some = list(islice(check(view), MAX_FINDINGS + 1))
        findings += some[:MAX_FINDINGS]
        if len(some) > MAX_FINDINGS:
            findings.append(_too_many(read.file))
    return in_file_order(findings)


def _of_text(view: FlowView) -> Iterator[Diagnostic]:
    yield from view.read.findings


def _too_many(file: str) -> Diagnostic:
    message = f"there are more than {MAX_FINDINGS} findings of a kind; the others are not shown"
    return Diagnostic(code="too-many-findings", message=message, file=file)
