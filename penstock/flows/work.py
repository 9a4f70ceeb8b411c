"""The body of a task that is a run of a flow."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, ErrorDetail, Json, Status
from penstock.core.errors import NotFound
from penstock.core.events.events import TaskEnded, TaskStarted
from penstock.core.events.flow_events import FlowNotified, FlowRequested, FlowStarted
from penstock.core.limits import Limits, World
from penstock.core.profile import Profile
from penstock.core.signals import Suspend
from penstock.core.task import TaskStatus
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.slots import Slots
from penstock.engine.suspend import park, withdraw
from penstock.engine.task_ends import failed, usage_of
from penstock.engine.task_state import TaskState
from penstock.flows.definition import AnyStep
from penstock.flows.project.library import FlowLibrary, source_of
from penstock.flows.project.snapshot import promised_ids
from penstock.flows.reading.flow import started_flow
from penstock.flows.runner import FlowRunner, RunContext
from penstock.flows.runs.frame_events import FrameEvents
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.report import flow_result, unbegun
from penstock.flows.runs.run import Run
from penstock.flows.starting import GATE_CLOSED, FlowSettings, Rejection, RunStart, begin
from penstock.flows.steps.step_context import StepContext
from penstock.flows.steps.step_runner import StepRunner

NOT_FOUND = "NOT_FOUND"
FAILED = "FLOW_FAILED"
EndTask = Callable[[HeldLog, TaskState, TaskEnded], None]
GateCheck = Callable[[str], Awaitable[str | None]]
"""Why a run of a flow, named by its command, may not begin; None if it may."""


async def always_open(command: str) -> str | None:
    """Let every run begin."""
    return None


class FlowWork(Struct, kw_only=True):
    """Conducts the runs of flows, each a task of its own."""

    library: FlowLibrary
    steps: StepRunner
    world: World
    key: bytes
    slots: Slots
    """Who may work at once."""
    close: EndTask
    """Closes what is open in a task, and ends it."""
    settings: FlowSettings = field(default_factory=FlowSettings)
    gate: GateCheck = always_open

    async def work(self, held: HeldLog, task: TaskState, brief: FlowRequested) -> None:
        """Go on with a run, once its turn has come, until it has ended or waits."""
        by_tool, goes_on = brief.depth > 0, task.started is not None
        async with self.slots.taken(task.task_id, by_tool=by_tool, goes_on=goes_on):
            await self._go_on(held, task, brief)

    async def refusal(self, brief: FlowRequested) -> Rejection | None:
        """Return why a run of a flow would be rejected now, if it would."""
        begun = await self._begin(brief)
        return begun if isinstance(begun, Rejection) else None

    def end(self, held: HeldLog, task: TaskState, brief: FlowRequested, ended: TaskEnded) -> None:
        """End a run before its time: it was cancelled, or the runtime failed."""
        started, why = _started(task), _why_ended(task, ended)
        flow_runner = None if started is None else self._flow_runner(held, task, brief, started)
        if flow_runner is None:
            self.close(held, task, _with_result(ended, _unbegun(task, brief, ended, why)))
            return
        if flow_runner.run.plan.status is not None:
            pass
        elif ended.status is TaskStatus.CANCELLED:
            flow_runner.abort()
        else:
            flow_runner.fail(why)
        result = flow_result(flow_runner.run, task, brief.command, reason=why)
        self.close(held, task, _with_result(ended, result))

    async def _go_on(self, held: HeldLog, task: TaskState, brief: FlowRequested) -> None:
        is_resumed = task.started is not None
        if not is_resumed:
            held.add(TaskStarted(), task.task_id)
        started = _started(task)
        if started is None:
            begun = await self._begin(brief)
            if isinstance(begun, Rejection):
                held.add(_rejected(task, brief, begun), task.task_id)
                return
            started = begun.started
            held.add(started, task.task_id, CallPath(task.task_id))
            held.add(_told(begun, brief.command), task.task_id, CallPath(task.task_id))
        flow_runner = self._flow_runner(held, task, brief, started, is_resumed=is_resumed)
        if flow_runner is None:
            self.end(held, task, brief, _unreadable(task))
            return
        heard = task.heard
        try:
            await flow_runner.conduct()
        except Suspend:
            park(held, task, heard=heard)
            return
        withdraw(held, task)
        held.add(self._ended(task, brief, flow_runner.run), task.task_id)

    async def _begin(self, brief: FlowRequested) -> RunStart | Rejection:
        begun = await asyncio.to_thread(self._read, brief)
        if isinstance(begun, RunStart) and (closed := await self.gate(brief.command)):
            return Rejection(code=GATE_CLOSED, reason=closed)
        return begun

    def _read(self, brief: FlowRequested) -> RunStart | Rejection:
        try:
            source = self.library.find(brief.command)
        except NotFound as error:
            return Rejection(code=NOT_FOUND, reason=str(error))
        return begin(source, brief, self.settings, no_shell=self.steps.why_no_shell)

    def _flow_runner(
        self,
        held: HeldLog,
        task: TaskState,
        brief: FlowRequested,
        started: FlowStarted,
        *,
        is_resumed: bool = False,
    ) -> FlowRunner | None:
        """Return who conducts a run; None if the flow that it keeps does not read any more."""
        flow = started_flow(started)
        if flow is None:
            return None
        if started.max_concurrent is not None:
            flow = replace(flow, max_concurrent=started.max_concurrent)
        source = source_of(started)
        run = Run(
            flow,
            started.task,
            inputs=started.inputs,
            config=started.config,
            promised=promised_ids(source, flow),
        )
        frame_events = FrameEvents(task)
        budget = Budget(allowance_of(self.world.limits), task, self.world.clock)
        budget.rest(frame_events.rested_ms / 1000)
        ledger = Ledger(held, task, budget, self.key)
        context = StepContext(
            run=run,
            frame=CallPath(task.task_id),
            visit=0,
            ledger=ledger,
            profile=Profile.from_noted(brief.profile_id, brief.permissions),
            is_autonomous=started.autonomous,
        )
        shared = RunContext(self.steps, self.library, self.world, frame_events, is_resumed)
        flow_runner = FlowRunner(run, source, context, shared)
        flow_runner.fold()
        return flow_runner

    def _ended(self, task: TaskState, brief: FlowRequested, run: Run) -> TaskEnded:
        result = flow_result(run, task, brief.command)
        if run.plan.status is RunStatus.SUCCESS:
            return TaskEnded(
                status=TaskStatus.SUCCEEDED,
                usage=usage_of(task),
                envelope=Envelope.success(result),
            )
        is_aborted = run.plan.status is RunStatus.ABORTED
        error = ErrorDetail(code=FAILED, message=run.failure or "the flow failed")
        return TaskEnded(
            status=TaskStatus.CANCELLED if is_aborted else TaskStatus.FAILED,
            usage=usage_of(task),
            error=error,
            envelope=Envelope(Status.FAILED, result, error),
        )


def allowance_of(limits: Limits) -> Allowance:
    """Return what one run may spend, with all that it starts."""
    return Allowance(
        tool_calls=limits.flow_tool_calls,
        model_calls=limits.flow_model_calls,
        tokens=limits.flow_tokens or None,
        seconds=limits.flow_seconds or math.inf,
    )


def _why_ended(task: TaskState, ended: TaskEnded) -> str:
    """Return why a run ended before its time, for people."""
    if ended.status is not TaskStatus.CANCELLED:
        return ended.error.message if ended.error is not None else "the runtime failed"
    return f"aborted by {task.cancelled_by}" if task.cancelled_by else "the run was cancelled"


def _started(task: TaskState) -> FlowStarted | None:
    first = task.story[0][1] if task.story else None
    return first if isinstance(first, FlowStarted) else None


def _with_result(ended: TaskEnded, result: Json) -> TaskEnded:
    return replace(ended, envelope=Envelope(Status.FAILED, result, ended.error))


def _unbegun(task: TaskState, brief: FlowRequested, ended: TaskEnded, why: str) -> Json:
    """Return the result of a run of which nothing is known but that it has ended."""
    status = RunStatus.ABORTED if ended.status is TaskStatus.CANCELLED else RunStatus.ERROR
    return unbegun(task.task_id, brief.command, status, why, task=brief.task or "")


def _rejected(task: TaskState, brief: FlowRequested, why: Rejection) -> TaskEnded:
    """Return the end of a run that never began; it is kept, so that who asked sees why."""
    rejected = RunStatus.REJECTED
    result = unbegun(task.task_id, brief.command, rejected, why.reason, task=brief.task or "")
    error = ErrorDetail(code=why.code, message=why.reason, details=why.details)
    envelope = Envelope(Status.FAILED, result, error)
    return TaskEnded(status=TaskStatus.FAILED, error=error, envelope=envelope)


def _unreadable(task: TaskState) -> TaskEnded:
    """Return the end of a run whose flow was written for an earlier penstock."""
    said = "the flow that this run began with is none to this version of penstock: run it again"
    return failed(task, ErrorDetail(code=FAILED, message=said))


def _told(begun: RunStart, command: str) -> FlowNotified:
    started, steps = begun.started, begun.flow.steps
    body = {
        "flowName": command,
        "task": started.task,
        "inputs": dict(started.inputs),
        "autonomous": started.autonomous,
        "steps": [_card(each) for each in steps],
    }
    return FlowNotified(kind="flow_started", body=body)


def _card(step: AnyStep) -> dict[str, str]:
    agent = getattr(step, "agent", None)
    named = {"agent": agent} if agent else {}
    return {"id": step.step_id, "type": step.kind.value} | named
