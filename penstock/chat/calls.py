"""A direct call at work: one tool, called by a person or a program, as a task of its own."""

from penstock.agents.offer import skills_of
from penstock.agents.settings import DEFAULTS
from penstock.chat.session import Cast
from penstock.core.call import Call, Origin
from penstock.core.canonical import canonical
from penstock.core.clock import Clock
from penstock.core.errors import NotFound
from penstock.core.events import CallRequested, TaskEnded, TaskStarted
from penstock.core.ids import ASSISTANT
from penstock.core.profile import Profile
from penstock.core.signals import Suspend
from penstock.core.task import TaskStatus
from penstock.engine.activation import usage_of
from penstock.engine.budget import Budget
from penstock.engine.held import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import SessionState, TaskState
from penstock.engine.suspend import park, withdraw
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller
from penstock.tools.skills import SkillsOf, TaskSkills


class CallWork:
    """Makes direct calls."""

    def __init__(self, invoker: Invoker, cast: Cast, clock: Clock, *, key: bytes) -> None:
        self._invoker = invoker
        self._cast = cast
        self._clock = clock
        self._key = key

    async def work(self, held: HeldLog, task: TaskState, brief: CallRequested) -> None:
        """Go on with the call until it is settled or waits."""
        if task.started is None:
            held.add(TaskStarted(offered=(brief.tool_id,)), task.task_id)
        ledger = Ledger(held, task, Budget(DEFAULTS.allowance(), task, self._clock), self._key)
        path = ledger.occurrences(f"{task.task_id}/0").path(brief.tool_id, canonical(brief.input))
        caller = self._caller(held.state, brief)
        call = Call(path, brief.tool_id, dict(brief.input))
        answered = len(task.answers)
        try:
            envelope = await self._invoker.call(call, caller, ledger)
        except Suspend:
            park(held, task, answered=answered)
            return
        ended = TaskEnded(
            status=TaskStatus.SUCCEEDED if envelope.ok else TaskStatus.FAILED,
            usage=usage_of(task),
            error=envelope.error,
            envelope=envelope,
        )
        withdraw(held, task)
        held.add(ended, task.task_id)

    def _caller(self, state: SessionState, brief: CallRequested) -> Caller:
        profile = Profile.from_noted(brief.profile_id, brief.permissions)
        skills = TaskSkills(
            self._cast.skills,
            state,
            self._skills_of(state),
            profile=profile,
            named=brief.selected_skills,
        )
        return Caller(
            origin=Origin.DIRECT, profile=profile, selection=skills.selection, skills=skills
        )

    def _skills_of(self, state: SessionState) -> SkillsOf:
        """Return what the agent of the session says of skills; one that is gone says nothing."""
        opened = state.opened
        try:
            return skills_of(self._cast.agent(state.log_id, opened.agent if opened else ASSISTANT))
        except NotFound:
            return SkillsOf()
