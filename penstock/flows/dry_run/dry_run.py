"""Runs a flow along every path in memory, and reports what was reached.

Guarantees: nothing real happens. Agents are scripted, shell and code steps only return sample
values, the log is discarded, and an unknown path in a flow-ref leads to a stub. The real
`FlowRunner`, plan, templates and checks of `finish` are used, so what a dry run finds is what a
run would do. It ends within 2 seconds, 200 runs and 1,000 starts per run; a result says whether
that was enough (`is_complete`).

How: each run asks a PathChooser for the outcome of every visit, until every choice was taken.
Tests: tests/flows/dry_run/test_dry_run.py.
"""

import asyncio
import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic
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
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import SessionState
from penstock.flows.definition import Flow
from penstock.flows.dry_run.outcome import (
    DryRun,
    DryRunContext,
    EmptyTemplate,
    ReachedBranch,
)
from penstock.flows.dry_run.path_chooser import PathChooser
from penstock.flows.dry_run.sample_values import SAMPLE, inputs_of
from penstock.flows.dry_run.steps import SimulatedSteps, SimulatedTools, simulated_tools
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.runner import FlowRunner, RunContext
from penstock.flows.runs.frame_events import FrameEvents
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.warnings import WARNING
from penstock.flows.steps.step_context import StepContext
from penstock.store.logs.log import Lease, Log

MOST_RUNS, MOST_STARTS, SECONDS = 200, 1000, 2.0
"""Limits of one dry run: number of runs, step starts per run, seconds in total."""
TASK = TaskId("dry")
_LOG = LogId(TASK)
_KEY = bytes(32)
_ANY = Allowance(model_calls=1_000_000, tool_calls=0, seconds=math.inf)
_LEASE = Lease(log_id=_LOG, epoch=1, head=0, crashed=False, recoveries=0, begun=True)
_FRAME = CallPath(TASK)
_OWN = 2
"""Number of slashes in the frame of a visit of the flow itself, not of a nested one."""
_MOST_NAMED = 4
_STUB = "stand-in.yaml"
_STUB_TEXT = f"name: s\ndescription: s\nsteps:\n  - {{id: {SAMPLE}, command: 'true'}}\n"


def dry_run(flow: Flow, file: str, around: DryRunContext) -> DryRun:
    """Run a flow dry. Must not be called from within an event loop."""
    return asyncio.run(DryRunner(flow, file, around).see_all())


class DryRunner:
    """Runs one flow repeatedly, and collects what happens."""

    def __init__(self, flow: Flow, file: str, around: DryRunContext) -> None:
        # A retry would repeat the same scripted failure, and wait for its delay.
        steps = tuple(replace(each, retry=None) for each in flow.steps)
        self._flow = replace(flow, steps=steps)
        self._source = FlowSource(root=around.root, path=file, texts={})
        self._around = around
        limits = dataclasses.replace(around.world.limits, flow_visits=MOST_STARTS)
        self._world = World(around.world.clock, limits, new_id)
        self._tools: SimulatedTools = simulated_tools(around.get_agent, self._world)
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
        while not (self._is_done or self._is_late) and self._runs < MOST_RUNS:
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
        run = Run(self._flow, SAMPLE, inputs=inputs_of(self._flow), config=self._around.config)
        context = StepContext(
            run=run,
            frame=_FRAME,
            visit=0,
            ledger=ledger,
            profile=LOCAL_PROFILE,
            is_autonomous=True,
        )
        steps = SimulatedSteps(self._tools, run, self._chooser, until=self._until)
        library = StubLibrary(self._around.library)
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
        if shared.frame_events.starts > MOST_STARTS:
            self._endless = tuple(each for each, visits in _most_started(run) if visits > 1)
        elif run.plan.status is RunStatus.ERROR and not self._is_late:
            self._failures[run.failure] = None

    def _collect(self, ledger: Ledger, run: Run, *, used_stub: bool) -> None:
        """Collect what happened in a run."""
        path_taken: list[str] = []
        for path, event in ledger.task.story:
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
    return Ledger(held, task, Budget(_ANY, task, world.clock), _KEY)


def _most_started(run: Run) -> list[tuple[str, int]]:
    return Counter(run.plan.visits).most_common(_MOST_NAMED)
