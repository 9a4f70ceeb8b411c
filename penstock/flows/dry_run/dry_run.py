"""Runs a flow along every path in memory, and reports what was reached.

Guarantees: nothing real happens. Agents are scripted, shell and code steps only return sample
values, the log is discarded, and an unknown path in a flow-ref leads to a stub. The real
`FlowRunner`, plan, templates and checks of `finish` are used, so what a dry run finds is what a
run would do. It ends within 2 seconds, 200 runs and 1,000 starts per run; a result says whether
that was enough (`is_complete`).

How: each run asks a PathChooser for the outcome of every visit, until every choice was taken.
`dry_findings` turns the result into findings with their positions in the file.
Tests: tests/flows/dry_run/test_dry_run.py.
"""

import asyncio
import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic, in_file_order
from penstock.core.errors import Signal
from penstock.core.events.events import TaskStarted
from penstock.core.events.flow_events import (
    FlowNotified,
    FlowRequested,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import World
from penstock.core.profile import LOCAL_PROFILE
from penstock.core.text import count
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState
from penstock.flows.checks.context import CheckContext, FlowView
from penstock.flows.definition import Flow
from penstock.flows.dry_run.outcome import (
    DryRun,
    DryRunContext,
    EmptyTemplate,
    ReachedBranch,
)
from penstock.flows.dry_run.path_chooser import PathChooser
from penstock.flows.dry_run.steps import (
    SAMPLE,
    SimulatedSteps,
    SimulatedTools,
    inputs_of,
    simulated_tools,
)
from penstock.flows.parsed_flow import ParsedFlow, ParsedStep
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.runner import FlowRunner, RunContext
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.visits import WARNING, FrameEvents
from penstock.flows.steps.kind import StepContext
from penstock.manifest.document import SourceRange
from penstock.manifest.template import ValueSource, parse
from penstock.store.logs.log import Lease, Log

MAX_RUNS, MAX_STARTS, SECONDS = 200, 1000, 2.0
"""Limits of one dry run: number of runs, step starts per run, seconds in total."""
TASK = TaskId("dry")
_LOG = LogId(TASK)
_KEY = bytes(32)
_ANY = Allowance(model_calls=1_000_000, tool_calls=0, seconds=math.inf)
_LEASE = Lease(log_id=_LOG, epoch=1, head=0, crashed=False, recoveries=0, is_started=True)
_FRAME = CallPath(TASK)
_OWN = 2
"""Number of slashes in the frame of a visit of the flow itself, not of a nested one."""
_MAX_NAMED = 4
_MAX_STEPS_NAMED = 8
_STUB = "stand-in.yaml"
_STUB_TEXT = f"name: s\ndescription: s\nsteps:\n  - {{id: {SAMPLE}, command: 'true'}}\n"


def dry_run(flow: Flow, file: str, context: DryRunContext) -> DryRun:
    """Run a flow dry. Must not be called from within an event loop."""
    return asyncio.run(DryRunner(flow, file, context).see_all())


class DryRunner:
    """Runs one flow repeatedly, and collects what happens."""

    def __init__(self, flow: Flow, file: str, context: DryRunContext) -> None:
        # A retry would repeat the same scripted failure, and wait for its delay.
        steps = tuple(replace(each, retry=None) for each in flow.steps)
        self._flow = replace(flow, steps=steps)
        self._source = FlowSource(root=context.root, path=file, texts={})
        self._context = context
        limits = dataclasses.replace(context.world.limits, flow_visits=MAX_STARTS)
        self._world = World(context.world.clock, limits, new_id)
        self._tools: SimulatedTools = simulated_tools(context.get_agent, self._world)
        self._chooser = PathChooser(self._flow, sees_all=True)
        self._until = self._world.clock.monotonic() + SECONDS
        self._reached: set[str] = set()
        self._empty: dict[tuple[str, str], EmptyTemplate] = {}
        self._results: dict[str, StepResult] = {}
        self._failures: dict[str, None] = {}
        self._endless: tuple[str, ...] = ()
        self._runs = self._starts = 0
        self._is_late = False

    async def see_all(self) -> DryRun:
        """Run until every path was taken, or a limit is reached."""
        while not (self._is_done or self._is_late) and self._runs < MAX_RUNS:
            self._chooser.begin()
            await self._run()
            self._chooser.end()
        branches = [
            ReachedBranch(step_id, each.branch, (step_id, each) not in self._chooser.unseen)
            for step_id, choices in self._chooser.choices.items()
            for each in choices
            if each.is_reported
        ]
        return DryRun(
            runs=self._runs,
            starts=self._starts,
            reached=tuple(each for each in self._flow.by_id if each in self._reached),
            branches=tuple(branches),
            is_complete=self._is_done and not self._is_late,
            endless=self._endless,
            empty=tuple(self._empty.values()),
            results=self._results,
            failures=tuple(self._failures),
        )

    @property
    def _is_done(self) -> bool:
        """Whether every path was taken, or exploring has used up its half of the time."""
        left = self._until - self._world.clock.monotonic()
        is_given_up = self._chooser.is_exploring and left < SECONDS / 2
        return self._chooser.is_done or is_given_up

    async def _run(self) -> None:
        self._runs += 1
        ledger = discarding_ledger(self._world, self._source.path)
        run = Run(self._flow, SAMPLE, inputs=inputs_of(self._flow), config=self._context.config)
        context = StepContext(
            run=run,
            frame=_FRAME,
            visit=0,
            ledger=ledger,
            profile=LOCAL_PROFILE,
            is_autonomous=True,
        )
        steps = SimulatedSteps(self._tools, run, self._chooser, until=self._until)
        library = StubLibrary(self._context.library)
        shared = RunContext(steps, library, self._world, FrameEvents(ledger.task))
        flow_runner = FlowRunner(run, self._source, context, shared)
        try:
            async with asyncio.timeout(max(self._until - self._world.clock.monotonic(), 0)):
                await flow_runner.conduct()
        except TimeoutError:
            self._is_late = True
        except Signal as signal:
            self._failures[f"it waits: {signal!r}"] = None
        self._is_late |= steps.is_late
        self._collect(ledger, run, used_stub=library.used_stub)
        ledger.held.leave()
        if shared.frame_events.starts > MAX_STARTS:
            self._endless = tuple(each for each, visits in _most_started(run) if visits > 1)
        elif run.plan.status is RunStatus.ERROR and not self._is_late:
            self._failures[run.failure] = None

    def _collect(self, ledger: Ledger, run: Run, *, used_stub: bool) -> None:
        """Collect what happened in a run."""
        path_taken: list[str] = []
        for path, event in ledger.task.flow_events:
            is_own = path is not None and path.count("/") == _OWN
            match event:
                case StepStarted() if is_own:
                    path_taken.append(event.step_id)
                case StepSettled() if is_own:
                    self._settle(event)
                case FlowNotified(kind=kind, body=body) if is_own and kind == WARNING:
                    if "reference" in body and not used_stub:
                        self._record_empty(body["stepId"], body["reference"], path_taken)
                case _:
                    pass
            self._starts += isinstance(event, StepStarted)
        self._reached |= {each for each, visits in run.plan.visits.items() if visits}

    def _settle(self, event: StepSettled) -> None:
        step = self._flow.by_id[event.step_id]
        if event.outcome is Outcome.SUCCESS:
            self._results[event.step_id] = event.result
        if step.is_nested:
            has_failed = event.outcome is not Outcome.SUCCESS
            for choice in self._chooser.choices[event.step_id]:
                if choice.fails is has_failed:
                    self._chooser.see(event.step_id, choice)

    def _record_empty(self, step_id: str, reference: str, path_taken: Sequence[str]) -> None:
        last = len(path_taken) - 1 - path_taken[::-1].index(step_id)
        self._empty.setdefault(
            (step_id, reference), EmptyTemplate(step_id, reference, tuple(path_taken[: last + 1]))
        )


class StubLibrary:
    """A FlowLibrary that adds a stub flow for each path made of sample values."""

    def __init__(self, library: FlowLibrary) -> None:
        self._library = library
        self.used_stub = False

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command."""
        return self._library.find(command)

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return the flows that a path refers to, or the stub."""
        flows = self._library.refer(source, path)
        if flows or SAMPLE not in path:
            return flows
        self.used_stub = True
        return [FlowSource(path=_STUB, texts={_STUB: _STUB_TEXT})]

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return the errors that prevent a flow from running."""
        return () if source.path == _STUB else self._library.faults(source)


class DiscardingLog(HeldLog):
    """A HeldLog that keeps events in its state and stores nothing."""

    __slots__ = ()

    def __init__(self, world: World) -> None:
        # There is no log below. `submit` is the only method that would use it, and it ends here.
        nowhere = cast("Log", None)
        super().__init__(nowhere, _LEASE, SessionState(_LOG), world, since=math.inf)

    def submit(self) -> None:
        """Drop the added events; the state has them."""
        self.leave()
        self._added.clear()


def discarding_ledger(world: World, command: str) -> Ledger:
    """Return the ledger of a run that is not stored."""
    held = DiscardingLog(world)
    profile_id = LOCAL_PROFILE.profile_id
    held.add(FlowRequested(command=command, profile_id=profile_id), TASK)
    held.add(TaskStarted(), TASK)
    task = held.state.current
    assert task is not None  # noqa: S101  the events above start it
    return Ledger(held, task, Budget(_ANY, task.spent, world.clock), _KEY)


def dry_findings(read: ParsedFlow, dry: DryRun) -> Sequence[Diagnostic]:
    """Return the findings of a dry run, by line."""
    view = FlowView(read, CheckContext())
    return in_file_order(
        [*_unreached(view, dry), *_unwalked(view, dry), *_empty(view, dry), *_endless(view, dry)]
    )


def _most_started(run: Run) -> list[tuple[str, int]]:
    return Counter(run.plan.visits).most_common(_MAX_NAMED)


def _unreached(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for parsed in view.steps:
        if parsed.step_id not in dry.reached:
            message = f"none of {count(dry.runs, 'run')} reached {parsed.label}"
            yield parsed.warning("dry-unreachable", message, suggestion=_why(dry))


def _unwalked(view: FlowView, dry: DryRun) -> Iterator[Diagnostic]:
    for branch in dry.branches:
        if not branch.is_walked and branch.step in dry.reached:
            step = view.by_id[branch.step]
            message = f'none of {count(dry.runs, "run")} took "{branch.branch}" of {step.label}'
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
            message = f'{step.label} reads "{name}" of "{owner}", which never returns it'
            yield step.warning(
                "dry-output-missing", message, place, f"declare it in the outputs of {owner}"
            )
            continue
        path = " -> ".join(empty.way[-_MAX_STEPS_NAMED:])
        cut = "... -> " if len(empty.way) > _MAX_STEPS_NAMED else ""
        message = f'template "{empty.reference}" in {step.label} was empty on the path {cut}{path}'
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
            f"a run did not end within {MAX_STARTS} starts of steps: it repeats "
            f"{', '.join(dry.endless)}"
        )
        advice = "let an agent-loop-decision or max_iterations end it"
        yield step.error("dry-no-end", message, suggestion=advice)
