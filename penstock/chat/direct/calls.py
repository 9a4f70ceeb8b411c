"""Direct calls: one tool, called by a person or a program instead of a model."""

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.offer import skills_of
from penstock.agents.settings import DEFAULTS
from penstock.chat.session import Participants
from penstock.core.call import Call, Origin, ToolCall
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound
from penstock.core.events.events import CallRequested, TaskEnded, TaskStarted
from penstock.core.ids import ASSISTANT, CallId
from penstock.core.json_values.canonical import canonical
from penstock.core.profile import Profile
from penstock.core.signals import Suspend
from penstock.core.task import TaskStatus
from penstock.engine.budget import Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import SessionState
from penstock.engine.suspend import park, withdraw
from penstock.engine.task_ends import usage_of
from penstock.engine.task_state import TaskState
from penstock.tools.access.policy import Caller
from penstock.tools.access.skills import SkillsOf, TaskSkills
from penstock.tools.invoker import Invoker

NAMELESS = CallId("")
"""The iteration in the path of a call without a message."""


class DirectCalls:
    """Makes direct calls, each the only call of its task."""

    def __init__(
        self, invoker: Invoker, participants: Participants, clock: Clock, *, key: bytes
    ) -> None:
        self._invoker = invoker
        self._participants = participants
        self._clock = clock
        self._key = key

    async def make(
        self, held: HeldLog, task: TaskState, asked: ToolCall, caller: Caller
    ) -> Envelope:
        """Run the call until it is settled. Raises Suspend while it waits for a person."""
        ledger = self.ledger(held, task)
        places = ledger.occurrences(f"{task.task_id}/0")
        path = places.path(asked.name, canonical(asked.arguments))
        call = Call(path, asked.name, dict(asked.arguments), call_id=asked.call_id or None)
        return await self._invoker.call(call, caller, ledger)

    def ledger(self, held: HeldLog, task: TaskState) -> Ledger:
        """Return the ledger of the task."""
        return Ledger(held, task, Budget(DEFAULTS.allowance(), task, self._clock), self._key)

    def caller(self, state: SessionState, profile: Profile, named: tuple[str, ...] = ()) -> Caller:
        """Return the caller, with the skills of the session and the given ones."""
        of = self._skills_of(state)
        skills = TaskSkills(self._participants.skills, state, of, profile=profile, named=named)
        return Caller(
            origin=Origin.DIRECT, profile=profile, selection=skills.selection, skills=skills
        )

    def reader(self, state: SessionState, caller: Caller) -> Caller:
        """Return the caller with the output limits of the session's agent."""
        agent = self._agent(state)
        settings = DEFAULTS if agent is None else agent.settings
        return replace(caller, clip_at=settings.result_max_chars)

    def _skills_of(self, state: SessionState) -> SkillsOf:
        """Return the skill settings of the session's agent; none if the agent is gone."""
        agent = self._agent(state)
        return SkillsOf() if agent is None else skills_of(agent)

    def _agent(self, state: SessionState) -> Agent | None:
        opened = state.opened
        try:
            return self._participants.agent(state.log_id, opened.agent if opened else ASSISTANT)
        except NotFound:
            return None


class CallWork:
    """The body of a task that is one direct call."""

    def __init__(self, calls: DirectCalls) -> None:
        self._calls = calls

    async def work(self, held: HeldLog, task: TaskState, brief: CallRequested) -> None:
        """Run the call until it is settled or waits."""
        if task.started is None:
            held.add(TaskStarted(offered=(brief.tool_id,)), task.task_id)
        profile = Profile.from_noted(brief.profile_id, brief.permissions)
        caller = self._calls.caller(held.state, profile, brief.selected_skills)
        asked = ToolCall(NAMELESS, brief.tool_id, dict(brief.input))
        heard = task.heard
        try:
            envelope = await self._calls.make(held, task, asked, caller)
        except Suspend:
            park(held, task, heard=heard)
            return
        withdraw(held, task)
        ended = TaskEnded(
            status=TaskStatus.SUCCEEDED if envelope.ok else TaskStatus.FAILED,
            usage=usage_of(task),
            error=envelope.error,
            envelope=envelope,
        )
        held.add(ended, task.task_id)
