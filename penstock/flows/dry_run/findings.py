"""What a dry run found, told where it stands in the file."""

from collections.abc import Iterator, Sequence

from penstock.core.diagnostics import Diagnostic, in_file_order
from penstock.flows.checks.context import CheckContext
from penstock.flows.checks.reachability import (
    ABSENT,
    BRANCHES,
    EXIT_TARGET,
    LOOP_TARGET,
    ON_ERROR,
    PRESENT,
)
from penstock.flows.checks.view import FlowView
from penstock.flows.definition import LoopDecision
from penstock.flows.dry_run.choices import CAP, EXIT, LOOP
from penstock.flows.dry_run.dry_run import MOST_STARTS
from penstock.flows.dry_run.outcome import DryRun, EmptyTemplate, ReachedBranch
from penstock.flows.reading.flow import ParsedFlow
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.template import ValueSource, parse
from penstock.manifest.yaml.source import SourceRange

_MOST_STEPS_TOLD = 8
_OF_LOOPS = {EXIT: EXIT_TARGET, LOOP: LOOP_TARGET, CAP: "max_iterations"}


def dry_findings(read: ParsedFlow, dry: DryRun) -> Sequence[Diagnostic]:
    """Return what authors should know, by line."""
    view = FlowView(read, CheckContext())
    return in_file_order(
        [*_unreached(view, dry), *_unwalked(view, dry), *_empty(view, dry), *_endless(view, dry)]
    )


def _unreached(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for each in view.steps:
        if each.step_id not in dry.reached:
            said = f"no run of {dry.runs} reached {each.label}"
            yield each.warning("dry-unreachable", said, suggestion=_why(dry))


def _unwalked(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for each in dry.branches:
        if not each.is_walked and each.step in dry.reached:
            step = view.by_id[each.step]
            said = f'no run of {dry.runs} took "{each.branch}" of {step.label}'
            yield step.warning("dry-branch-unwalked", said, _place(step, each), _why(dry))


def _why(dry: DryRun) -> str | None:
    if not dry.is_complete:
        return "there was no time to try everything"
    return f"runs ended with an error before: {dry.failures[0]}" if dry.failures else None


def _place(step: ParsedStep, walked: ReachedBranch) -> SourceRange | None:
    keys: tuple[str, ...] = (BRANCHES, walked.branch)
    if walked.branch in {PRESENT, ABSENT, ON_ERROR} and walked.branch in step.node.value:
        keys = (walked.branch,)
    elif isinstance(step.step, LoopDecision):
        keys = (_OF_LOOPS[walked.branch],)
    node = step.node
    for key in keys:
        if not isinstance(node.value, dict) or key not in node.value:
            break
        node = node.at(key)
    return node.key_place if node is not step.node else None


def _empty(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for each in dry.empty:
        step = view.by_id[each.step]
        place = _where(view, each)
        if (missing := _undeclared(view, dry, each)) is not None:
            owner, name = missing
            said = f'{step.label} reads "{name}" of "{owner}", which never hands it in'
            yield step.warning(
                "dry-output-missing", said, place, f"declare it in the outputs of {owner}"
            )
            continue
        way = " -> ".join(each.way[-_MOST_STEPS_TOLD:])
        cut = "... -> " if len(each.way) > _MOST_STEPS_TOLD else ""
        said = f'template "{each.reference}" in {step.label} names nothing on the way {cut}{way}'
        yield step.warning("dry-template-empty", said, place)


def _undeclared(view: FlowView, dry: DryRun, empty: EmptyTemplate) -> tuple[str, str] | None:
    """Return the step and the output that a template reads, if the step has a result without it."""
    (ref,) = parse(empty.reference).refs
    if ref.kind is not ValueSource.RESULT or len(ref.names) == 1:
        return None
    owner, name, *_ = ref.names
    result = dry.results.get(owner)
    is_own = owner in view.by_id and owner not in view.subflows
    return (owner, name) if is_own and result is not None and not result.has(name) else None


def _where(view: FlowView, empty: EmptyTemplate) -> SourceRange | None:
    """Return where a template of a step stands; that of its agent stands elsewhere."""
    for written in view.written:
        if written.step.step_id == empty.step:
            for ref in written.template.refs:
                if ref.text == empty.reference:
                    return view.place(written, ref)
    return None


def _endless(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for step_id in dry.endless[:1]:
        step = view.by_id[step_id]
        said = (
            f"a run did not end within {MOST_STARTS} starts of steps: it goes round by "
            f"{', '.join(dry.endless)}"
        )
        advice = "let an agent-loop-decision or max_iterations end it"
        yield step.error("dry-no-end", said, suggestion=advice)
