"""Conducts a run: starts what the plan says, writes down how it ended, and goes on from there."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath, is_below
from penstock.core.flow_events import FlowNotified, FlowStarted, StepSettled, StepStarted
from penstock.core.signals import Blocked, Suspend
from penstock.core.step import Outcome
from penstock.core.world import World
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import withdraw
from penstock.flows.definition import AnyStep, FlowRef, Fork, LoopDecision, StepKind
from penstock.flows.nested import failed_inside, in_frames, referred_starts, result_of_last
from penstock.flows.project.library import FlowLibrary, FlowSource, is_glob, source_of
from penstock.flows.project.snapshot import promised_ids
from penstock.flows.reading.flow import started_flow
from penstock.flows.runs.costs import STEP_WAITS
from penstock.flows.runs.frame_events import FrameEvents
from penstock.flows.runs.idle_steps import IdleSteps
from penstock.flows.runs.loops import RouteTaken
from penstock.flows.runs.plan import Aborted, FlowEnded, Jumped, Notice, RunStatus, Skipped
from penstock.flows.runs.run import Run
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.flows.steps.step_context import StepContext, VisitResult
from penstock.flows.steps.step_runner import StepRunner

_LOOK_SECONDS = 0.2
"""How long an answer may lie there while other steps are at work."""
NO_RETRY = frozenset({"interrupted"})
"""Soft failures after which nothing is tried again."""


class RunContext(Struct, frozen=True):
    """What a run and the flows that it refers to share."""

    steps: StepRunner
    library: FlowLibrary
    world: World
    frame_events: FrameEvents
    """Of the task, for each run to find its part."""
    is_resumed: bool = False
    """The run started in an earlier activation, perhaps in a process that has what is missing
    here: a step that lacks its agent or its model is blocked. Else the step fails, and its author
    learns of the mistake at once."""


class FlowRunner(Struct):
    """One run at work, in this activation."""

    run: Run
    source: FlowSource
    """The flow with what the run keeps: what it refers to is looked for beside it."""
    context: StepContext
    """Where steps take place; its frame is that of the run."""
    shared: RunContext
    depth: int = 1
    """How deep the flow stands inside others."""
    _tasks: dict[asyncio.Task[VisitResult | None], str] = field(default_factory=dict)
    """What is under way: visits, and waits between tries, which come to nothing."""
    _idle_steps: IdleSteps = field(default_factory=IdleSteps)
    _due: list[str] = field(default_factory=list)
    """Steps that waited, and go on when there is room."""

    @property
    def ledger(self) -> Ledger:
        """The task's part of the log."""
        return self.context.ledger

    def fold(self) -> None:
        """Take in what happened in this run before."""
        for path, event in self.shared.frame_events.steps(self.context.frame):
            if isinstance(event, StepStarted):
                self.run.start(event)
            else:
                self.run.settle(event)
                if self.run.flow.by_id[event.step_id].kind is StepKind.FLOW_REF:
                    self._adopt(event.step_id, path)

    def abort(self) -> None:
        """End the run, because somebody wants that."""
        self._abort_inside()
        for notice in self.run.abort():
            self._tell_notice(notice)

    def fail(self, text: str) -> None:
        """End the run, because the runtime failed."""
        self._abort_inside()
        for notice in self.run.fail(text):
            self._tell_notice(notice)

    def _abort_inside(self) -> None:
        """End the flows that running steps refer to."""
        for step_id in self.run.plan.running:
            frame = self._frame(step_id)
            for number, inner in self._inside(frame):
                inner.fold()
                if inner.run.plan.status is None:
                    inner.abort()
                self.run.adopt(step_id, inner.run, number)

    async def conduct(self) -> None:
        """Go on until the run has ended.

        Raises Suspend when only people can bring it on, Blocked when only another process can,
        Cancel when somebody wants it to end.
        """
        for step_id in sorted(self.run.plan.running):
            if step_id in self.run.between_tries:
                self._wait_for_try(step_id)
            elif self._has_waited(step_id):
                self._due.append(step_id)
            else:
                self._take_up(step_id)
        try:
            while self.run.plan.status is None:
                self._due += self._idle_steps.take_answered(self.ledger.task)
                self._start_ready()
                if not self._tasks:
                    raise self._idle_steps.pause()
                for each in await self._some_over():
                    self._take(each)
        finally:
            await self._stop()

    async def _some_over(self) -> "list[asyncio.Task[VisitResult | None]]":
        """Return what is over, as it was begun; nothing after a while, if an answer may have come.

        Of what is over at the same time, the order is not left to chance.
        """
        seconds = _LOOK_SECONDS if self._idle_steps.waiting else None
        clock = self.shared.world.clock
        rests = self.run.between_tries.issuperset(self._tasks.values())
        since = clock.monotonic() if rests else 0
        done, _ = await asyncio.wait(
            self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if rests:
            self.ledger.budget.rest(clock.monotonic() - since)
        return [each for each in self._tasks if each in done]

    def _has_waited(self, step_id: str) -> bool:
        """Whether a visit that was left waited, and asks nobody any more."""
        frame = self._frame(step_id)
        asked = (each.path for each in self.ledger.task.waiting.values())
        still_waits = any(each == frame or is_below(each, frame) for each in asked)
        return not still_waits and self.shared.frame_events.costs.waits(frame)

    def _take_up_again(self, step_id: str) -> None:
        """Go on with a visit that waited; it is at work again unless it still asks somebody."""
        if self._has_waited(step_id):
            self._tell_waits(step_id, waits=False)
        self._take_up(step_id)

    def _start_ready(self) -> None:
        """Begin what may begin: what waited before is first. Who waits takes up no place."""
        while self._due and self.run.plan.room(self._idle):
            step_id = self._due.pop(0)
            if step_id in self.run.between_tries:
                self._begin(step_id)
            else:
                self._take_up_again(step_id)
        for step_id in self.run.plan.ready(self._idle):
            self._begin(step_id)

    @property
    def _idle(self) -> set[str]:
        """Running steps that are not at work."""
        idle = self._idle_steps
        return {*idle.waiting, *idle.blocked, *self._due, *self.run.between_tries}

    def _begin(self, step_id: str) -> None:
        """Note that a visit begins, and begin it."""
        self._note_start(step_id)
        self._take_up(step_id)

    def _note_start(self, step_id: str) -> None:
        agent = getattr(self.run.flow.by_id[step_id], "agent", None) or ""
        visit = self.run.plan.visits[step_id] + 1
        now = self._active_ms()
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
        if isinstance(step, LoopDecision):
            is_forced = step.max_iterations is not None and visit > step.max_iterations
            route = RouteTaken((), visit, is_forced=is_forced, back=(step.loop_target,))
            self._tell_iteration(step, route, frame)

    def _take_up(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._visit(step_id))] = step_id

    async def _visit(self, step_id: str) -> VisitResult:
        """Carry out a visit, or what follows a failed one."""
        most = self.shared.world.limits.flow_visits
        if self.shared.frame_events.number(self._frame(step_id)) > most:
            text = f"more than {most} steps were started in one run"
            return VisitResult(ended=failed("visit_limit", text, is_hard=True))
        step = self.run.flow.by_id[step_id]
        context = replace(
            self.context, frame=self._frame(step_id), visit=self.run.plan.visits[step_id]
        )
        if isinstance(step, FlowRef):
            return await self._refer(step, context)
        return await self.shared.steps.visit(step, context)

    def _take(self, task: "asyncio.Task[VisitResult | None]") -> None:
        """Write down how a visit ended, with all that follows from it."""
        step_id = self._tasks.pop(task)
        error = task.exception()
        if isinstance(error, Suspend):
            self._idle_steps.waiting[step_id] = error
            if not self.shared.frame_events.costs.waits(self._frame(step_id)):
                self._tell_waits(step_id, waits=True)
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
        step, visit = self.run.flow.by_id[step_id], self.run.plan.visits[step_id]
        frame = self._frame(step_id)
        withdraw(self.ledger.held, self.ledger.task, below=frame)
        event = self._with_costs(visited.event(step_id, visit), frame)
        if self._tries_again(step, event):
            event = replace(event, will_retry=True)
        self._tell_loop(step, visited, frame)
        self.ledger.add(event, frame)
        if isinstance(step, FlowRef):
            self._adopt(step_id, frame)
        for notice in self.run.settle(event):
            self._tell_notice(notice)
        self.ledger.held.submit_soon()
        if event.will_retry:
            self._wait_for_try(step_id)

    def _with_costs(self, event: StepSettled, frame: CallPath) -> StepSettled:
        costs = self.shared.frame_events.costs
        duration = costs.duration(frame, self._active_ms())
        return replace(event, duration_ms=duration, usage=costs.usage(frame))

    def _active_ms(self) -> int:
        """Return how long the run has been at work by now."""
        since = self.shared.world.clock.now() - self.ledger.held.state.last_at
        return self.ledger.task.active_ms + max(since, 0)

    def _tries_again(self, step: AnyStep, event: StepSettled) -> bool:
        if step.retry is None or event.outcome is not Outcome.SOFT or event.source in NO_RETRY:
            return False
        return self.run.tries.get(step.step_id, 0) < step.retry.attempts

    def _wait_for_try(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._sleep(step_id))] = step_id

    async def _sleep(self, step_id: str) -> None:
        """Wait until a step is to be tried once more."""
        tries = self.run.flow.by_id[step_id].retry
        await self.shared.world.clock.sleep(tries.delay if tries is not None else 0)

    def _frame(self, step_id: str) -> CallPath:
        """Return the frame of a step's newest visit."""
        visit = max(self.run.plan.visits[step_id], 1)
        return CallPath(f"{self.context.frame}/{step_id}/{visit}")

    # ---- flows in flows ----

    async def _refer(self, step: FlowRef, context: StepContext) -> VisitResult:
        """Conduct the flows that a step refers to, one after another."""
        if self.depth >= (most := self.shared.world.limits.flow_depth):
            text = f"flows stand inside each other more than {most} deep"
            return VisitResult(ended=failed("ref_depth", text, is_hard=True))
        if not self.shared.frame_events.flows(context.frame):
            values = self.run.values()
            path, library = values.text(step.path), self.shared.library
            found = await asyncio.to_thread(
                referred_starts, library, self.source, step, path, values=values
            )
            context.warn_of_missing(values, step.step_id)
            if isinstance(found, VisitOutcome):
                return VisitResult(ended=found)
            for frame, started in in_frames(found, context.frame, is_glob=is_glob(path)):
                self.ledger.add(started, frame)
        newest: FlowRunner | None = None
        for _, inner in self._inside(context.frame):
            newest = inner
            newest.fold()
            await newest.conduct()
            if newest.run.plan.status is not RunStatus.SUCCESS:
                return VisitResult(ended=failed_inside(newest.run))
        result = result_of_last(newest.run if newest is not None else None)
        return VisitResult(ended=VisitOutcome(outcome=Outcome.SUCCESS, result=result))

    def _inside(self, frame: CallPath) -> "Iterator[tuple[str, FlowRunner]]":
        """Yield who conducts the flows inside a frame, each with its number in a glob."""
        for path, started in self.shared.frame_events.flows(frame):
            yield path[len(frame) + 1 :], self._inner(path, started)

    def _inner(self, frame: CallPath, started: FlowStarted) -> "FlowRunner":
        flow = started_flow(started)
        assert flow is not None  # noqa: S101  it was read before it was begun
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
        """Take over what flows inside left, as the log has it."""
        for number, inner in self._inside(frame):
            inner.fold()
            self.run.adopt(step_id, inner.run, number)

    # ---- what readers are told ----

    def _tell_loop(self, step: AnyStep, visited: VisitResult, frame: CallPath) -> None:
        route = visited.route
        if isinstance(step, Fork) and visited.is_left_to_agent and visited.answer is not None:
            body = {
                "forkId": step.step_id,
                "agentName": visited.decided_by,
                "chosenBranch": visited.answer,
                "targetStepId": ", ".join(route.targets),
            }
            self._tell("flow_auto_decision", body, frame)
        if route.iteration and not isinstance(step, LoopDecision):
            self._tell_iteration(step, route, frame)

    def _tell_iteration(self, step: AnyStep, route: RouteTaken, frame: CallPath) -> None:
        told = {
            "stepId": step.step_id,
            "iteration": route.iteration,
            "maxIterations": step.max_iterations,
            "loopTarget": ", ".join(route.back),
            "forced": route.is_forced,
        }
        self._tell("flow_loop_iteration", told, frame)

    def _tell_notice(self, notice: Notice) -> None:
        match notice:
            case Jumped(source=source, targets=targets, why=why):
                body = {"from": source, "to": list(targets), "why": why}
                self._tell("flow_jump", body, self.context.frame)
            case Skipped(step_id=step_id, why=why):
                body = {"stepId": step_id, "reason": why.value}
                self._tell("flow_step_skipped", body, self.context.frame)
            case Aborted(step_id=step_id):
                self._tell("flow_step_aborted", {"stepId": step_id}, self.context.frame)
            case FlowEnded():
                pass
            case _:
                assert_never(notice)

    def _tell_waits(self, step_id: str, *, waits: bool) -> None:
        body = {"stepId": step_id, "waits": waits, "activeMs": self._active_ms()}
        self._tell(STEP_WAITS, body, self._frame(step_id))

    def _tell(self, kind: str, body: Mapping[str, object], frame: CallPath) -> None:
        self.ledger.add(FlowNotified(kind=kind, body=dict(body)), frame)

    async def _stop(self) -> None:
        """Cut what still runs, because the run has ended, or this activation does."""
        tasks = list(self._tasks)
        self._tasks.clear()
        for each in tasks:
            each.cancel("the run goes on no further here")
        await asyncio.gather(*tasks, return_exceptions=True)
