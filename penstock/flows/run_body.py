"""The task body of a flow run: starts it, continues it, and ends it.

Guarantees: a run is checked before its first step, and what it was checked with (the texts of the
flow, its inputs, its config) is stored in `FlowStarted`; later edits of the files do not change a
run. Every request ends in a FlowResult, also one that was rejected. The number of runs
active in this process is limited; the others wait for a slot.

How: `work` is called once per activation. The first call checks and starts the run, later calls
rebuild it from the log. Relies on the lease of the log, held by the caller. Tests:
tests/flows/test_run_body.py.
"""

import asyncio
import math
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, ErrorDetail, Json, Status
from penstock.core.errors import HookFailed, HookRefused, NotFound, Suspend
from penstock.core.events.events import TaskEnded, TaskStarted
from penstock.core.events.flow_events import FlowNotified, FlowRequested, FlowStarted
from penstock.core.limits import Limits, World
from penstock.core.profile import Profile
from penstock.core.reply import UserMessage
from penstock.core.task import TaskStatus
from penstock.engine.budget import Allowance, Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.run_slots import Slots
from penstock.engine.suspend import park, withdraw
from penstock.engine.task_body import failed
from penstock.engine.task_state import TaskState
from penstock.flows.definition import Step
from penstock.flows.parsing import started_flow
from penstock.flows.project.library import FlowLibrary, promised_ids, source_of
from penstock.flows.runner import FlowRunner, RunContext
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run, flow_result, result_without_steps
from penstock.flows.runs.visits import FrameEvents
from penstock.flows.starting import FlowSettings, Rejection, RunStart, begin
from penstock.flows.steps.kind import StepContext
from penstock.flows.steps.table import StepRunner
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import ON_INPUT, AgentHooks, HookRegistry

NOT_FOUND = "NOT_FOUND"
FAILED = "FLOW_FAILED"
EndTask = Callable[[HeldLog, TaskState, TaskEnded], None]


class FlowWork(Struct, kw_only=True):
    """Carries out runs of flows; each run is a task."""

    library: FlowLibrary
    steps: StepRunner
    world: World
    key: bytes
    slots: Slots
    """Limits how many runs work at once."""
    close: EndTask
    """Closes open calls and questions of a task, and ends it."""
    settings: FlowSettings = field(default_factory=FlowSettings)
    hooks: HookRegistry = field(default_factory=HookRegistry)
    """Those of the project decide whether a run starts, and with which task."""

    async def work(self, held: HeldLog, task: TaskState, brief: FlowRequested) -> None:
        """Start or continue a run, once it has a slot, until it has ended or waits."""
        # Runs that tools started also count towards `limits.workflow_max_concurrent`.
        by_tool, is_resumed = brief.depth > 0, task.started is not None
        async with self.slots.taken(task.task_id, by_tool=by_tool, resumes=is_resumed):
            await self._conduct(held, task, brief)

    def set_autonomous(self, *, enabled: bool) -> None:
        """Set the default for `autonomous` of later runs."""
        self.settings = replace(self.settings, is_autonomous=enabled)

    @property
    def asks_hooks(self) -> bool:
        """Whether hooks decide if a run starts: those of the project that have `on_input`."""
        return self._hooks is not None

    @property
    def _hooks(self) -> AgentHooks | None:
        selected = self.hooks.select("", ())
        return selected if selected is not None and selected.overriding(ON_INPUT) else None

    async def refusal(self, brief: FlowRequested) -> Rejection | None:
        """Return why a run would be rejected now, or None."""
        start = await self._check_start(brief)
        return start if isinstance(start, Rejection) else None

    def end(self, held: HeldLog, task: TaskState, brief: FlowRequested, ended: TaskEnded) -> None:
        """End a run early: it was cancelled, or the runtime failed."""
        started, why = _started(task), _why_ended(task, ended)
        flow_runner = None if started is None else self._flow_runner(held, task, brief, started)
        if flow_runner is None:
            self.close(
                held, task, _with_result(ended, _result_without_steps(task, brief, ended, why))
            )
            return
        if flow_runner.run.plan.status is not None:  # the run ended, only its TaskEnded is missing
            pass
        elif ended.status is TaskStatus.CANCELLED:
            flow_runner.abort()
        else:
            flow_runner.fail(why)
        result = flow_result(flow_runner.run, task, brief.command, reason=why)
        self.close(held, task, _with_result(ended, result))

    async def _conduct(self, held: HeldLog, task: TaskState, brief: FlowRequested) -> None:
        is_resumed = task.started is not None
        if not is_resumed:
            held.add(TaskStarted(), task.task_id)
        started = _started(task)
        if started is None:
            start = await self._check_start(brief)
            if isinstance(start, RunStart) and (hooks := self._hooks) is not None:
                asked = self._asked(hooks, held, task, brief)
                start = await _left_by(asked, start)
            if isinstance(start, Rejection):
                held.add(_rejected(task, brief, start), task.task_id)
                return
            started = start.started
            held.add(started, task.task_id, CallPath(task.task_id))
            held.add(_started_event(start, brief.command), task.task_id, CallPath(task.task_id))
        flow_runner = self._flow_runner(held, task, brief, started, is_resumed=is_resumed)
        if flow_runner is None:
            self.end(held, task, brief, _unreadable(task))
            return
        # What had arrived when the work began: `park` must not suspend a task whose answer came
        # since.
        arrivals_before = task.waits.arrivals
        try:
            await flow_runner.conduct()
        except Suspend:
            park(held, task, arrivals_before=arrivals_before)
            return
        withdraw(held, task)
        held.add(self._ended(task, brief, flow_runner.run), task.task_id)

    async def _check_start(self, brief: FlowRequested) -> RunStart | Rejection:
        return await asyncio.to_thread(self._read, brief)

    def _asked(
        self, hooks: AgentHooks, held: HeldLog, task: TaskState, brief: FlowRequested
    ) -> TaskHooks:
        budget = Budget(allowance_of(self.world.limits), task.spent, self.world.clock)
        profile = Profile.from_noted(brief.profile_id, brief.permissions)
        return TaskHooks(hooks, Ledger(held, task, budget, self.key), profile, None)

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
        """Return the runner of a run, or None if this version cannot read the stored flow."""
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
        budget = Budget(allowance_of(self.world.limits), task.spent, self.world.clock)
        # Time that earlier activations spent in pauses before retries is not part of the budget.
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
                usage=task.spent.usage(),
                envelope=Envelope.success(result),
            )
        is_aborted = run.plan.status is RunStatus.ABORTED
        error = ErrorDetail(code=FAILED, message=run.failure or "the flow failed")
        return TaskEnded(
            status=TaskStatus.CANCELLED if is_aborted else TaskStatus.FAILED,
            usage=task.spent.usage(),
            error=error,
            envelope=Envelope(Status.FAILED, result, error),
        )


async def _left_by(hooks: TaskHooks, start: RunStart) -> RunStart | Rejection:
    """Return the start of a run as hooks leave its task, or why one of them refuses it."""
    try:
        text = await hooks.on_input(UserMessage(text=start.started.task))
    except (HookRefused, HookFailed) as error:
        return Rejection(code=error.code, reason=str(error), details=error.details)
    return replace(start, started=replace(start.started, task=text))


def allowance_of(limits: Limits) -> Allowance:
    """Return the budget of one run, including everything that it starts."""
    return Allowance(
        tool_calls=limits.flow_tool_calls,
        model_calls=limits.flow_model_calls,
        tokens=limits.flow_tokens or None,
        seconds=limits.flow_seconds or math.inf,
    )


def _why_ended(task: TaskState, ended: TaskEnded) -> str:
    """Return the reason for people why a run ended early."""
    if ended.status is not TaskStatus.CANCELLED:
        return ended.error.message if ended.error is not None else "the runtime failed"
    return f"aborted by {task.cancelled_by}" if task.cancelled_by else "the run was cancelled"


def _started(task: TaskState) -> FlowStarted | None:
    first = task.flow_events[0][1] if task.flow_events else None
    return first if isinstance(first, FlowStarted) else None


def _with_result(ended: TaskEnded, result: Json) -> TaskEnded:
    return replace(ended, envelope=Envelope(Status.FAILED, result, ended.error))


def _result_without_steps(
    task: TaskState, brief: FlowRequested, ended: TaskEnded, why: str
) -> Json:
    """Return the result of a run that ended before its flow was started or could be read."""
    status = RunStatus.ABORTED if ended.status is TaskStatus.CANCELLED else RunStatus.ERROR
    return result_without_steps(task.task_id, brief.command, status, why, task=brief.task or "")


def _rejected(task: TaskState, brief: FlowRequested, why: Rejection) -> TaskEnded:
    """Return the end of a rejected run. It is stored, so that the requester can read why."""
    rejected = RunStatus.REJECTED
    result = result_without_steps(
        task.task_id, brief.command, rejected, why.reason, task=brief.task or ""
    )
    error = ErrorDetail(code=why.code, message=why.reason, details=why.details)
    envelope = Envelope(Status.FAILED, result, error)
    return TaskEnded(status=TaskStatus.FAILED, error=error, envelope=envelope)


def _unreadable(task: TaskState) -> TaskEnded:
    """Return the end of a run whose stored flow this version of penstock cannot read."""
    message = (
        "this version of penstock cannot read the flow that this run started with: run it again"
    )
    return failed(task, ErrorDetail(code=FAILED, message=message))


def _started_event(start: RunStart, command: str) -> FlowNotified:
    started, steps = start.started, start.flow.steps
    body = {
        "flowName": command,
        "task": started.task,
        "inputs": dict(started.inputs),
        "autonomous": started.autonomous,
        "steps": [_card(step) for step in steps],
    }
    return FlowNotified(kind="flow_started", body=body)


def _card(step: Step) -> dict[str, str]:
    agent = getattr(step, "agent", None)
    optional = {"agent": agent} if agent else {}
    return {"id": step.step_id, "type": step.kind} | optional
