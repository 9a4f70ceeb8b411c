"""Conducts a run: starts what the plan says, writes down how it ended, and goes on from there."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.core.call import CallPath
from penstock.core.flow_events import FlowEvent, FlowTold, StepSettled, StepStarted
from penstock.core.signals import Suspend
from penstock.core.step import Outcome
from penstock.core.world import World
from penstock.engine.ledger import Ledger
from penstock.flows.definition import AnyStep, Fork, LoopDecision
from penstock.flows.plan import Aborted, Jumped, Notice, Skipped
from penstock.flows.run import Run
from penstock.flows.session import failed
from penstock.flows.steps import Place, Steps, Visited

NO_RETRY = frozenset({"interrupted"})
"""Soft failures after which nothing is tried again."""


@dataclass(slots=True)
class Visits:
    """How many steps were started in one run, sub-flows counted."""

    most: int
    count: int = 0


@dataclass(slots=True)
class Conductor:
    """One run at work, in this activation."""

    run: Run
    place: Place
    """Where steps take place; its frame is that of the run."""
    steps: Steps
    world: World
    visits: Visits
    _tasks: dict[asyncio.Task[Visited], str] = field(default_factory=dict)
    _waiting: dict[str, Suspend] = field(default_factory=dict)
    """Steps that wait for a person, and for what."""

    @property
    def ledger(self) -> Ledger:
        """The task's part of the log."""
        return self.place.ledger

    def fold(self, story: Sequence[tuple[CallPath | None, FlowEvent]]) -> None:
        """Take in what happened in this run before the activation began."""
        for _, event in story:
            if isinstance(event, StepStarted):
                self.run.start(event)
                self.visits.count += 1
            elif isinstance(event, StepSettled):
                self.run.settle(event)

    def abort(self) -> None:
        """End the run, because somebody wants that."""
        for notice in self.run.abort():
            self._tell_notice(notice)

    async def conduct(self) -> None:
        """Go on until the run has ended.

        Raises Suspend when only people can bring it on, Cancel when somebody wants it to end.
        """
        for step_id in sorted(self.run.plan.running):
            if step_id in self.run.between_tries:
                self._try_again(step_id)
            else:
                self._take_up(step_id)
        try:
            while self.run.plan.status is None:
                self._start_ready()
                if not self._tasks:
                    raise Suspend(*[q for each in self._waiting.values() for q in each.questions])
                done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    self._take(each)
        finally:
            await self._stop()

    def _start_ready(self) -> None:
        for step_id in self.run.plan.ready(self._waiting):
            self._begin(step_id)

    def _begin(self, step_id: str) -> None:
        """Note that a visit begins, and begin it."""
        self._note_start(step_id)
        self._take_up(step_id)

    def _note_start(self, step_id: str) -> None:
        agent = getattr(self.run.flow.by_id[step_id], "agent", None) or ""
        visit = self.run.plan.visits[step_id] + 1
        started = StepStarted(step_id=step_id, visit=visit, agent=agent)
        self.run.start(started)
        self.visits.count += 1
        self.ledger.add(started, self._frame(step_id))

    def _take_up(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._visit(step_id))] = step_id

    async def _visit(self, step_id: str) -> Visited:
        """Carry out a visit, or what follows a failed one."""
        if self.visits.count > self.visits.most:
            text = f"more than {self.visits.most} steps were started in one run"
            return Visited(ended=failed("visit_limit", text, is_hard=True))
        step = self.run.flow.by_id[step_id]
        place = replace(self.place, frame=self._frame(step_id), visit=self.run.plan.visits[step_id])
        return await self.steps.visit(step, place)

    def _take(self, task: "asyncio.Task[Visited]") -> None:
        """Write down how a visit ended, with all that follows from it."""
        step_id = self._tasks.pop(task)
        error = task.exception()
        if isinstance(error, Suspend):
            self._waiting[step_id] = error
            return
        if error is not None:
            raise error
        if self.run.plan.status is None:
            self._settle(step_id, task.result())

    def _settle(self, step_id: str, visited: Visited) -> None:
        step, visit = self.run.flow.by_id[step_id], self.run.plan.visits[step_id]
        event = visited.event(step_id, visit)
        if self._tries_again(step, event):
            event = replace(event, will_retry=True)
        frame = self._frame(step_id)
        self._tell_loop(step, visited, frame)
        self.ledger.add(event, frame)
        for notice in self.run.settle(event):
            self._tell_notice(notice)
        self.ledger.held.submit_soon()
        if event.will_retry:
            self._try_again(step_id)

    def _tries_again(self, step: AnyStep, event: StepSettled) -> bool:
        if step.retry is None or event.outcome is not Outcome.SOFT or event.source in NO_RETRY:
            return False
        return self.run.tries.get(step.step_id, 0) < step.retry.attempts

    def _try_again(self, step_id: str) -> None:
        self._tasks[asyncio.create_task(self._again(step_id))] = step_id

    async def _again(self, step_id: str) -> Visited:
        """Wait, then visit the step once more."""
        tries = self.run.flow.by_id[step_id].retry
        await self.world.clock.sleep(tries.delay if tries is not None else 0)
        self._note_start(step_id)
        return await self._visit(step_id)

    def _frame(self, step_id: str) -> CallPath:
        """Return the frame of a step's newest visit."""
        visit = max(self.run.plan.visits[step_id], 1)
        return CallPath(f"{self.place.frame}/{step_id}/{visit}")

    # ---- what readers are told ----

    def _tell_loop(self, step: AnyStep, visited: Visited, frame: CallPath) -> None:
        route = visited.route
        if isinstance(step, Fork) and visited.decided_by and visited.answer is not None:
            body = {
                "forkId": step.step_id,
                "agentName": visited.decided_by,
                "chosenBranch": visited.answer,
                "targetStepId": ", ".join(route.targets),
            }
            self._tell("flow_auto_decision", body, frame)
        if route.iteration:
            told: dict[str, object] = {
                "stepId": step.step_id,
                "iteration": route.iteration,
                "maxIterations": step.max_iterations,
                "loopTarget": step.loop_target if isinstance(step, LoopDecision) else None,
                "forced": route.is_forced,
            }
            self._tell("flow_loop_iteration", told, frame)

    def _tell_notice(self, notice: Notice) -> None:
        match notice:
            case Jumped(source=source, targets=targets, why=why):
                body = {"from": source, "to": list(targets), "why": why}
                self._tell("flow_jump", body, self.place.frame)
            case Skipped(step_id=step_id, why=why):
                body = {"stepId": step_id, "reason": why.value}
                self._tell("flow_step_skipped", body, self.place.frame)
            case Aborted(step_id=step_id):
                self._tell("flow_step_aborted", {"stepId": step_id}, self.place.frame)
            case _:
                pass

    def _tell(self, kind: str, body: Mapping[str, object], frame: CallPath) -> None:
        self.ledger.add(FlowTold(kind=kind, body=dict(body)), frame)

    async def _stop(self) -> None:
        """Cut what still runs, because the run has ended, or this activation does."""
        tasks = list(self._tasks)
        self._tasks.clear()
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
