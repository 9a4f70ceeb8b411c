"""Findings of a dry run, with their places in the file."""

from collections.abc import Iterator, Sequence

from penstock.core.diagnostics import Diagnostic, in_file_order
from penstock.flows.checks.context import CheckContext
from penstock.flows.checks.view import FlowView
from penstock.flows.dry_run.dry_run import MOST_STARTS
from penstock.flows.dry_run.outcome import DryRun, EmptyTemplate, ReachedBranch
from penstock.flows.parsed import ParsedFlow, ParsedStep
from penstock.manifest.template import ValueSource, parse
from penstock.manifest.yaml_document import SourceRange

_MOST_STEPS_NAMED = 8


def dry_findings(read: ParsedFlow, dry: DryRun) -> Sequence[Diagnostic]:
    """Return the findings of a dry run, by line."""
    view = FlowView(read, CheckContext())
    return in_file_order(
        [*_unreached(view, dry), *_unwalked(view, dry), *_empty(view, dry), *_endless(view, dry)]
    )


def _unreached(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for parsed in view.steps:
        if parsed.step_id not in dry.reached:
            message = f"no run of {dry.runs} reached {parsed.label}"
            yield parsed.warning("dry-unreachable", message, suggestion=_why(dry))


def _unwalked(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for branch in dry.branches:
        if not branch.is_walked and branch.step in dry.reached:
            step = view.by_id[branch.step]
            message = f'no run of {dry.runs} took "{branch.branch}" of {step.label}'
            yield step.warning("dry-branch-unwalked", message, _place(step, branch), _why(dry))


def _why(dry: DryRun) -> str | None:
    if not dry.is_complete:
        return "there was no time to try everything"
    return f"runs ended with an error before: {dry.failures[0]}" if dry.failures else None


def _place(step: ParsedStep, walked: ReachedBranch) -> SourceRange | None:
    choices = (choice for choice in step.step.choices() if choice.branch == walked.branch)
    keys = next((choice.keys for choice in choices), ())
    node = step.node
    for key in keys:
        if not isinstance(node.value, dict) or key not in node.value:
            break
        node = node.at(key)
    return node.key_place if node is not step.node else None


def _empty(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for empty in dry.empty:
        step = view.by_id[empty.step]
        place = _where(view, empty)
        if (missing := _undeclared(view, dry, empty)) is not None:
            owner, name = missing
            message = f'{step.label} reads "{name}" of "{owner}", which never hands it in'
            yield step.warning(
                "dry-output-missing", message, place, f"declare it in the outputs of {owner}"
            )
            continue
        path = " -> ".join(empty.way[-_MOST_STEPS_NAMED:])
        cut = "... -> " if len(empty.way) > _MOST_STEPS_NAMED else ""
        message = (
            f'template "{empty.reference}" in {step.label} names nothing on the way {cut}{path}'
        )
        yield step.warning("dry-template-empty", message, place)


def _undeclared(view: FlowView, dry: DryRun, empty: EmptyTemplate) -> tuple[str, str] | None:
    """Return the step and the output that a template reads, if the step does not declare it."""
    (ref,) = parse(empty.reference).refs
    if ref.kind is not ValueSource.RESULT or len(ref.names) == 1:
        return None
    owner, name, *_ = ref.names
    result = dry.results.get(owner)
    is_own = owner in view.by_id and owner not in view.subflows
    return (owner, name) if is_own and result is not None and not result.has(name) else None


def _where(view: FlowView, empty: EmptyTemplate) -> SourceRange | None:
    """Return the place of a template in the flow; None if it is in the agent's file."""
    for written in view.written:
        if written.step.step_id == empty.step:
            for ref in written.template.refs:
                if ref.text == empty.reference:
                    return view.place(written, ref)
    return None


def _endless(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for step_id in dry.endless[:1]:
        step = view.by_id[step_id]
        message = (
            f"a run did not end within {MOST_STARTS} starts of steps: it goes round by "
            f"{', '.join(dry.endless)}"
        )
        advice = "let an agent-loop-decision or max_iterations end it"
        yield step.error("dry-no-end", message, suggestion=advice)
