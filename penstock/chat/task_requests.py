"""Requests to tasks by their ids and in their wire forms, as the HTTP API and commands make them.

Each is one outside event, committed by `chat/inbox` when the method returns. Nothing is lost when a
caller stops waiting, because the task continues in the log. Programs use the methods of Runtime,
which take and return values of Python instead.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.agents.agent import AnyAgent
from penstock.agents.attachments.keeper import AttachmentKeeper
from penstock.agents.catalog import Catalog
from penstock.chat.directory import Directory
from penstock.chat.inbox import Inbox
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.recorded.fork import Fork, ForkRequest, TaskCopier
from penstock.chat.requests import NewMessage, SentMessage, TaskReply, check_content
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NotFound, SessionBusy
from penstock.core.events.events import Entry
from penstock.core.events.flow_events import HandedBack
from penstock.core.ids import LogId, QuestionId, SessionId, TaskId
from penstock.core.json_values.schema import Problem
from penstock.core.profile import Profile
from penstock.core.task import QuestionRecord, TaskRecord
from penstock.engine.bus import Live
from penstock.engine.cold_folds import ColdFolds
from penstock.engine.session_state import SessionState
from penstock.models.resolve import ModelRegistry
from penstock.store.blobs import Blobs
from penstock.store.erasure import Erasure
from penstock.store.projections import Projections
from penstock.tools.skills import Skills, TaskSkills


class Known(Struct, frozen=True, kw_only=True):
    """The agents, models, files, tasks and conversations that requests name."""

    agents: Catalog
    models: ModelRegistry
    projections: Projections
    attachments: AttachmentKeeper
    blobs: Blobs
    directory: Directory
    copier: TaskCopier
    erasure: Erasure | None
    """None without a database: nothing is erased then."""
    owner: str
    """The name of this process as the owner of leases."""


class Requests:
    """Sends messages, answers and cancellations, waits for tasks, and follows logs."""

    def __init__(
        self, inbox: Inbox, waiter: TaskWaiter, source: LogSource, *, known: Known, local: Profile
    ) -> None:
        self.inbox = inbox
        self.waiter = waiter
        self.source = source
        self.known = known
        self.local = local
        """The profile of work that names none."""

    async def send(self, message: NewMessage, profile: Profile | None = None) -> SentMessage:
        """Send a message without waiting for its answer; it is on disk when this returns.

        Raises NotFound (the agent, the conversation), InvalidRequest, ConfigError (the model),
        QuestionOpen, SessionBusy (also if an event newer than `head` exists), IdempotencyConflict.
        """
        self.known.agents.get(message.agent)
        if message.model is not None:
            await self.check_model(message.model)
        return await self.inbox.send(message, profile or self.local)

    async def check_model(self, name: str) -> None:
        """Raise ConfigError if a model is unknown, or its key or library is missing."""
        await self.known.models.look_up(name)
        self.known.models.get(name)

    async def wait(self, task_id: str, *, seconds: float | None = None) -> TaskReply | None:
        """Wait until a task has ended or waits for a person; None if the time was up first.

        Raises NotFound.
        """
        return await self.waiter.wait(TaskId(task_id), seconds)

    async def answer(
        self, question_id: str, body: Mapping[str, Any], *, profile: Profile | None = None
    ) -> QuestionRecord:
        """Answer a question with a body such as `{"decision": "approve"}` or `{"value": "red"}`.

        The same answer again changes nothing. Raises NotFound, Forbidden, InvalidAnswer,
        AlreadyAnswered, QuestionClosed.
        """
        return await self.inbox.answer(QuestionId(question_id), body, profile or self.local)

    async def cancel(self, task_id: str, *, profile: Profile | None = None) -> TaskRecord:
        """Cancel a task, whatever its status; its record may be from before its end.

        Raises NotFound, TaskOver.
        """
        return await self.inbox.cancel(TaskId(task_id), profile or self.local)

    async def fork(
        self, task_id: str, request: ForkRequest, *, profile: Profile | None = None
    ) -> Fork:
        """Continue a copy of a task from an event in its middle; the task itself stays as it is.

        Raises NotFound (the task, the agent, or a profile of one conversation), InvalidRequest,
        TextErased.
        """
        caller = profile or self.local
        task = await self.inbox.task(TaskId(task_id), caller)
        if caller.session_id is not None:
            raise NotFound("a link to one conversation cannot fork: a fork is another conversation")
        if request.agent is not None:
            self.known.agents.get(request.agent)
        if request.content is not None:
            check_content(NewMessage(content=request.content), self.source.limits)
        return await self.known.copier.fork(task, request, caller)

    async def hand_back(self, session_id: str, *, profile: Profile | None = None) -> str:
        """Undo the newest hand-off of a conversation; return the agent that has it then.

        Without a hand-off nothing changes. Raises NotFound, StoreCorrupt, and SessionBusy while a
        task has not ended.
        """
        caller, log_id = profile or self.local, LogId(session_id)
        await self.inbox.check_session(SessionId(session_id), caller)
        # Not from the cache of the launcher: it may not know yet what another process wrote.
        log = self.source.log
        state = await ColdFolds(log).folded(log_id, await log.head(log_id))
        if not (state.seq and state.is_idle):
            raise SessionBusy("a task of this conversation has not ended; wait for it or cancel it")
        agents = state.agents
        if agents.handed:
            agents.hand_back()
            event = HandedBack(agent=agents.newest, by=caller.profile_id)
            await log.send(log_id, [Entry(event)], head=state.seq)
        return agents.newest

    def follow(
        self, log_id: str, *, after: int = 0, task_id: str | None = None
    ) -> AsyncGenerator[Live, None]:
        """Yield the items of a log after an event, of one task or of all, each exactly once.

        Ends when the runtime closes, or when the reader was too slow: follow again from the last
        `seq` then.
        """
        task = None if task_id is None else TaskId(task_id)
        return follow(self.source, LogId(log_id), after=after, task_id=task)


def unknown_skills(
    names: Sequence[str], skills: Skills, agent: AnyAgent, profile: Profile
) -> list[Problem]:
    """Return the named skills that do not exist or that this agent and profile may not select."""
    if not names:
        return []
    nothing = SessionState(LogId(""))
    choice = agent.settings.skill_choice
    of_task = TaskSkills(skills, nothing, lambda: choice, profile=profile)
    known = {each.skill_id for each in of_task.visible()}
    return [
        Problem(f"/selectedSkillIds/{place}", f"no skill {name!r}.{did_you_mean(name, known)}")
        for place, name in enumerate(names)
        if name not in known
    ]
