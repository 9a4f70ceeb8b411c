"""Runs a flow: starts the steps that the plan allows, records their outcomes, and continues.

Guarantees: in the log, the start of a visit precedes everything that happens in it, and its
outcome precedes the consequences, so a run that was killed continues from its log. A visit whose
outcome is in the log is not repeated; one that was interrupted is entered again in the same frame
and finds its earlier calls settled there.

How: `fold` replays the starts and outcomes into the `Run`. `conduct` then keeps one asyncio task
per visit, or per pause before a retry. Finished tasks are handled one after another and in start
order, so the events are in a deterministic order even if two steps end at the same moment. When
no task is left, the run raises Suspend (people must answer) or Blocked (this process lacks an
agent or a model). Nested flows run in the same way, each with a `FlowRunner` of its own in a
deeper frame.

Relies on: one FlowRunner per frame and activation, on one event loop; the lease of the log. Two
processes without the lease would both start steps. Tests: tests/flows/test_runner.py,
tests/flows/test_run_body.py, and the kills in tests/journeys/test_flow_code_killed.py.
"""

import asyncio
from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath, is_below
from penstock.core.errors import Blocked, Suspend
from penstock.core.events.flow_events import (
    FlowNotified,
    FlowStarted,
    Outcome,
    StepSettled,
    StepStarted,
)
from penstock.core.limits import World
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import withdraw
from penstock.flows.definition import Step
from penstock.flows.parsing import started_flow
from penstock.flows.project.library import FlowLibrary, FlowSource, is_glob, promised_ids, source_of
from penstock.flows.run_events import (
    consequence_event,
    iteration_event,
    route_events,
    waits_event,
)
from penstock.flows.runs.plan import IdleSteps, Notice, RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import RouteTaken
from penstock.flows.runs.visits import FrameEvents, VisitOutcome, failed
from penstock.flows.starting import failed_inside, in_frames, referred_starts, result_of_last
from penstock.flows.steps.flow_ref import FlowRef
from penstock.flows.steps.kind import StepContext, VisitResult
from penstock.flows.steps.table import StepRunner

FLOW_DEPTH = 8
"""Most flows that are nested in each other."""

_ANSWER_POLL_SECONDS = 0.2
"""Upper bound for the delay until an answer is noticed while other steps are running."""
NO_RETRY = frozenset({"interrupted"})
"""Sources of soft failures that are never retried: the step may have had an effect."""


class RunContext(Struct, frozen=True):
    """Values that a run shares with its nested flows."""

    steps: StepRunner
    library: FlowLibrary
    world: World
    frame_events: FrameEvents
    """Flow events of the whole task; each run reads the part below its frame."""
    is_resumed: bool = False
    """The run started in an earlier activation, perhaps in a process that has the agent or model
    missing here. A step without it is then blocked. In the first activation it fails instead, so
    that
    the author sees the mistake at once."""


class FlowRunner(Struct):
    """Conducts one run, or one nested flow, in this activation."""

    run: Run
    source: FlowSource
    """The flow and the texts stored with its run. Relative paths start from it."""
    context: StepContext
    """Context for the steps of this run; its frame is the run's frame."""
    shared: RunContext
    depth: int = 1
    """Nesting depth of the flow, from 1."""
    _tasks: dict[asyncio.Task[VisitResult | None], str] = field(default_factory=dict)
    """Work in progress: visits, and pauses before a retry (whose result is None)."""
    _idle_steps: IdleSteps = field(default_factory=IdleSteps)
    _due: list[str] = field(default_factory=list)
    """Steps that waited and continue as soon as `max_concurrent` allows."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of the task."""
        return self.context.ledger

    def fold(self) -> None:
        """Replay the events of this run from the log."""
        for path, event in self.shared.frame_events.steps(self.context.frame):
            if isinstance(event, StepStarted):
                self.run.start(event)
            else:
                self.run.settle(event)
                if self.run.flow.by_id[event.step_id].is_nested:
                    self._adopt(event.step_id, path)

    def abort(self) -> None:
        """End the run because its cancellation was requested."""
        self._abort_nested()
        self._notify_consequences(self.run.abort())

    def fail(self, text: str) -> None:
        """End the run because the runtime failed."""
        self._abort_nested()
        self._notify_consequences(self.run.fail(text))

    def _abort_nested(self) -> None:
        """Abort the nested flows of running steps."""
        for step_id in self.run.plan.running:
            frame = self._frame(step_id)
            for number, inner in self._nested_runners(frame):
                inner.fold()
                if inner.run.plan.status is None:
                    inner.abort()
                self.run.adopt(step_id, inner.run, number)

    async def conduct(self) -> None:
        """Continue until the run has ended.

        Raises Suspend if only people can continue it, Blocked if only another process can, and
        Cancel if its cancellation was requested.
        """
        # Sorted: the set has no order of its own, and a resumed run must act as the first one did.
        for step_id in sorted(self.run.plan.running):
            if step_id in self.run.between_tries:
                self._spawn_pause(step_id)
            elif self._has_waited(step_id):
                self._due.append(step_id)
            else:
                self._spawn_visit(step_id)
        try:
            while self.run.plan.status is None:
                self._due += self._idle_steps.take_answered(self.ledger.task)
                self._start_ready()
                if not self._tasks:
                    raise self._idle_steps.pause()
                for finished in await self._wait_for_finished():
                    self._handle_finished(finished)
        finally:
            await self._stop()

    async def _wait_for_finished(self) -> "list[asyncio.Task[VisitResult | None]]":
        """Return finished tasks in start order; none if only the time to look for answers is up.

        `asyncio.wait` returns a set. Start order makes the log the same in every run of the same
        events.
        """
        seconds = _ANSWER_POLL_SECONDS if self._idle_steps.waiting else None
        clock = self.shared.world.clock
        # While every task is only a pause before a retry, the run is idle: that time does not count
        # towards its budget of seconds.
        rests = self.run.between_tries.issuperset(self._tasks.values())
        since = clock.monotonic() if rests else 0
        done, _ = await asyncio.wait(
            self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if rests:
            self.ledger.budget.rest(clock.monotonic() - since)
        return [task for task in self._tasks if task in done]

    def _has_waited(self, step_id: str) -> bool:
        """Whether a visit from an earlier activation waited, and no question of it is open now."""
        frame = self._frame(step_id)
        asked = (waiting.path for waiting in self.ledger.task.waits.waiting.values())
        still_waits = any(path == frame or is_below(path, frame) for path in asked)
        return not still_waits and self.shared.frame_events.costs.waits(frame)

    def _resume_visit(self, step_id: str) -> None:
        """Resume a visit that waited, and record that it is active again."""
        if self._has_waited(step_id):
            self._notify_waits(step_id, waits=False)
        self._spawn_visit(step_id)

    def _start_ready(self) -> None:
        """Start or resume what `max_concurrent` allows; steps that waited go first."""
        while self._due and self.run.plan.room(self._idle):
            step_id = self._due.pop(0)
            if step_id in self.run.between_tries:
                self._start_visit(step_id)
            else:
                self._resume_visit(step_id)
        for step_id in self.run.plan.ready(self._idle):
            self._start_visit(step_id)

    @property
    def _idle(self) -> set[str]:
        """Running steps that are not active and therefore take no place."""
        idle = self._idle_steps
        return {*idle.waiting, *idle.blocked, *self._due, *self.run.between_tries}

    def _start_visit(self, step_id: str) -> None:
        """Record a new visit or attempt, and start its work."""
        self._record_start(step_id)
        self._spawn_visit(step_id)

    def _record_start(self, step_id: str) -> None:
        agent = self.run.flow.by_id[step_id].agent or ""
        visit = self.run.plan.visits[step_id] + 1
        now = self._active_ms_now()
        started = StepStarted(
            step_id=step_id,
            visit=visit,
            agent=agent,
            active_ms=now,
            rested_ms=round(1000 * self.ledger.budget.rested),
        )
        self.run.start(started)
        frame, step = self._frame(step_id), self.run.flow.by_id[step_id]
        self.ledger.add(started, frame)
        if step.counts_visits:
            is_forced = step.max_iterations is not None and visit > step.max_iterations
            route = RouteTaken((), visit, is_forced=is_forced, back=step.loop_targets)
            self._notify(iteration_event(step, route), frame)

    def _spawn_visit(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._visit(step_id))] = step_id

    async def _visit(self, step_id: str) -> VisitResult:
        """Carry out a visit."""
        limit = self.shared.world.limits.flow_visits
        if self.shared.frame_events.number(self._frame(step_id)) > limit:
            text = f"more than {limit} steps were started in one run"
            return VisitResult(ended=failed("visit_limit", text, is_hard=True))
        step = self.run.flow.by_id[step_id]
        context = replace(
            self.context, frame=self._frame(step_id), visit=self.run.plan.visits[step_id]
        )
        if isinstance(step, FlowRef):
            return await self._run_nested(step, context)
        return await self.shared.steps.visit(step, context)

    def _handle_finished(self, task: "asyncio.Task[VisitResult | None]") -> None:
        """Handle a finished task: the step waits, is blocked, is due, or has an outcome."""
        step_id = self._tasks.pop(task)
        error = task.exception()
        if isinstance(error, Suspend):
            self._idle_steps.waiting[step_id] = error
            if not self.shared.frame_events.costs.waits(self._frame(step_id)):
                self._notify_waits(step_id, waits=True)
            return
        if isinstance(error, Blocked):
            self._idle_steps.blocked[step_id] = error.blocked_on
            return
        if error is not None:
            raise error
        visited = task.result()
        if visited is None:
            self._due.append(step_id)
        elif self.shared.is_resumed and (missing := visited.ended.missing) is not None:
            self._idle_steps.blocked[step_id] = (missing,)
        elif self.run.plan.status is None:
            self._settle(step_id, visited)

    def _settle(self, step_id: str, visited: VisitResult) -> None:
        """Record an outcome and its consequences, in the order in which readers see them."""
        step, visit = self.run.flow.by_id[step_id], self.run.plan.visits[step_id]
        frame = self._frame(step_id)
        # Open questions of the visit have no reader any more. They are withdrawn before the
        # outcome, so that the log never has a settled step with an open question.
        withdraw(self.ledger.held, self.ledger.task, below=frame)
        event = self._with_costs(visited.event(step_id, visit), frame)
        if self._will_retry(step, event):
            event = replace(event, will_retry=True)
        for notified in route_events(step, visited):
            self._notify(notified, frame)
        self.ledger.add(event, frame)
        if step.is_nested:
            self._adopt(step_id, frame)
        self._notify_consequences(self.run.settle(event))
        self.ledger.held.submit_soon()
        if event.will_retry:
            self._spawn_pause(step_id)

    def _with_costs(self, event: StepSettled, frame: CallPath) -> StepSettled:
        costs = self.shared.frame_events.costs
        duration = costs.duration(frame, self._active_ms_now())
        return replace(event, duration_ms=duration, usage=costs.usage(frame))

    def _active_ms_now(self) -> int:
        """Return the active time of the run until now, in milliseconds."""
        since = self.shared.world.clock.now() - self.ledger.held.state.last_at
        return self.ledger.task.spent.active_ms + max(since, 0)

    def _will_retry(self, step: Step, event: StepSettled) -> bool:
        if step.retry is None or event.outcome is not Outcome.SOFT or event.source in NO_RETRY:
            return False
        return self.run.tries.get(step.step_id, 0) < step.retry.attempts

    def _spawn_pause(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._pause_before_retry(step_id))] = step_id

    async def _pause_before_retry(self, step_id: str) -> None:
        """Wait for the delay before the next attempt."""
        tries = self.run.flow.by_id[step_id].retry
        await self.shared.world.clock.sleep(tries.delay if tries is not None else 0)

    def _frame(self, step_id: str) -> CallPath:
        """Return the frame of a step's newest visit."""
        visit = max(self.run.plan.visits[step_id], 1)
        return CallPath(f"{self.context.frame}/{step_id}/{visit}")

    # ---- nested flows ----

    async def _run_nested(self, step: FlowRef, context: StepContext) -> VisitResult:
        """Run the flows that a flow-ref step refers to, one after another."""
        if self.depth >= FLOW_DEPTH:
            text = f"flows are nested more than {FLOW_DEPTH} deep"
            return VisitResult(ended=failed("ref_depth", text, is_hard=True))
        # The path is resolved once per visit: after a restart the log has the flows that were found
        # then, whatever the files are now.
        if not self.shared.frame_events.flows(context.frame):
            values = self.run.values()
            path, library = values.text(step.path), self.shared.library
            # Resolving reads and checks files, so it runs in a thread.
            starts = await asyncio.to_thread(
                referred_starts, library, self.source, step, path, values=values
            )
            context.warn_of_missing(values, step.step_id)
            if isinstance(starts, VisitOutcome):
                return VisitResult(ended=starts)
            for frame, started in in_frames(starts, context.frame, is_glob=is_glob(path)):
                self.ledger.add(started, frame)
        newest: FlowRunner | None = None
        for _, inner in self._nested_runners(context.frame):
            newest = inner
            newest.fold()
            await newest.conduct()
            if newest.run.plan.status is not RunStatus.SUCCESS:
                return VisitResult(ended=failed_inside(newest.run))
        result = result_of_last(newest.run if newest is not None else None)
        return VisitResult(ended=VisitOutcome(outcome=Outcome.SUCCESS, result=result))

    def _nested_runners(self, frame: CallPath) -> "Iterator[tuple[str, FlowRunner]]":
        """Yield the runners of the nested flows in a frame, each with its number in a glob."""
        for path, started in self.shared.frame_events.flows(frame):
            yield path[len(frame) + 1 :], self._nested_runner(path, started)

    def _nested_runner(self, frame: CallPath, started: FlowStarted) -> "FlowRunner":
        flow = started_flow(started)
        assert flow is not None  # noqa: S101  it was readable when the nested flow started
        source = source_of(started)
        run = Run(
            flow,
            started.task,
            inputs=started.inputs,
            config=self.run.config,
            promised=promised_ids(source, flow),
        )
        context = replace(self.context, run=run, frame=frame)
        return FlowRunner(run, source, context, self.shared, self.depth + 1)

    def _adopt(self, step_id: str, frame: CallPath) -> None:
        """Copy the results of nested flows into this run."""
        for number, inner in self._nested_runners(frame):
            inner.fold()
            self.run.adopt(step_id, inner.run, number)

    def _notify(self, event: FlowNotified, frame: CallPath | None = None) -> None:
        self.ledger.add(event, frame or self.context.frame)

    def _notify_consequences(self, consequences: Iterable[Notice]) -> None:
        for event in filter(None, map(consequence_event, consequences)):
            self._notify(event)

    def _notify_waits(self, step_id: str, *, waits: bool) -> None:
        event = waits_event(step_id, waits=waits, active_ms=self._active_ms_now())
        self._notify(event, self._frame(step_id))

    async def _stop(self) -> None:
        """Cancel the remaining tasks: the run has ended, or this activation ends."""
        tasks = list(self._tasks)
        self._tasks.clear()
        for task in tasks:
            task.cancel("the run does not continue in this activation")
        await asyncio.gather(*tasks, return_exceptions=True)
