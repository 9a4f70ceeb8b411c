"""Requests to tasks by their ids and in their wire forms, as the HTTP API and commands make them.

Each is one outside event, committed by `chat/inbox` when the method returns. Nothing is lost when a
caller stops waiting, because the task continues in the log. Programs use the methods of Runtime,
which take and return values of Python instead.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import AnyAgent
from penstock.agents.attachments.keeper import AttachmentKeeper
from penstock.agents.catalog import Catalog
from penstock.chat.children.questions import report_answer
from penstock.chat.children.starting import ChildStarter
from penstock.chat.directory import Directory
from penstock.chat.inbox import Inbox
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.recorded.fork import Fork, ForkRequest, TaskCopier
from penstock.chat.recorded.retry import RetryParts, TaskRetries
from penstock.chat.recorded.undo import Undo, UndoCall, UndoPlan
from penstock.chat.recorded.undo_reader import UndoReader
from penstock.chat.requests import (
    NewMessage,
    SentMessage,
    TaskReply,
    blocked_error,
    check_content,
    question_of,
)
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import InvalidRequest, NameTaken, NotFound, SessionBusy, TaskOver
from penstock.core.events.events import CallRequested, Entry
from penstock.core.events.flow_events import HandedBack
from penstock.core.ids import UNDO, LogId, QuestionId, SessionId, TaskId, undo_id
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


class UndoRequests:
    """Plans undos, starts them, and reports what came of them."""

    def __init__(self, reader: UndoReader, inbox: Inbox, waiter: TaskWaiter) -> None:
        self._reader = reader
        self._inbox = inbox
        self._waiter = waiter

    async def plan(self, task_id: str, call_id: str | None, profile: Profile) -> Undo:
        """Return what an undo would do now, without doing it.

        Raises NotFound (the task, the call) and InvalidRequest if the task is itself an undo, or
        the call cannot be taken back.
        """
        task = await self._undoable(task_id, profile)
        plan = await self._reader.plan_now(task)
        _check(plan, call_id)
        shown = plan.shown if call_id is None else _only(plan, call_id)
        is_open = bool(plan.chosen(call_id) or plan.working)
        return Undo(task_id=task_id, status="planned" if is_open else "nothing", calls=shown)

    async def start(self, task_id: str, call_id: str | None, profile: Profile) -> TaskId | None:
        """Start an undo, or return the one that runs; None if there is nothing to take back.

        A task that has not ended is cancelled first, with those that work for it, and awaited. What
        the undo is to do is on disk when this returns. Raises what `plan` raises.
        """
        while True:
            task = await self._undoable(task_id, profile)
            plan = await self._reader.plan_now(task)
            if plan.working:
                await self._end(plan.working, profile)
                continue
            newest = plan.undos[-1] if plan.undos else None
            if newest is not None and not newest.status.is_final:
                await self._inbox.resume(newest.task_id, profile)
                return newest.task_id
            _check(plan, call_id)
            if not plan.chosen(call_id):
                return None if newest is None else newest.task_id
            new = undo_id(plan.top, plan.number)
            # The secrets and values of reverts are those of the profile whose calls they were.
            requested = CallRequested(
                tool_id=UNDO,
                input={"task": task.task_id} | ({} if call_id is None else {"call": call_id}),
                profile_id=task.profile_id,
                permissions=profile.noted,
                undoes=task.task_id,
            )
            with suppress(NameTaken):  # another request was faster: return its undo
                await self._inbox.request(LogId(new), new, requested)
                return new

    async def result(
        self, task_id: str, undo: TaskId | None, profile: Profile, *, seconds: float | None = None
    ) -> Undo:
        """Return an undo once it has ended or waits, or when the time is up."""
        reply = None if undo is None else await self._waiter.wait(undo, seconds)
        task = await self._undoable(task_id, profile)
        plan = await self._reader.plan_now(task)
        if undo is None:
            return Undo(task_id=task_id, status="nothing", calls=plan.shown)
        made = Undo(task_id=task_id, status="running", calls=plan.shown, undo_id=undo)
        return made if reply is None else _with_reply(made, reply)

    async def _end(self, working: Sequence[TaskId], profile: Profile) -> None:
        """Cancel tasks, the outermost first, and wait for the ends of all."""
        for task_id in working:
            with suppress(TaskOver):
                await self._inbox.cancel(task_id, profile)
        for task_id in working:
            reply = await self._waiter.wait(task_id)
            while reply is not None and not reply.status.is_final:  # reported as waiting at first
                reply = await self._waiter.wait(task_id)

    async def _undoable(self, task_id: str, profile: Profile) -> TaskRecord:
        task = await self._inbox.task(TaskId(task_id), profile)
        if await self._reader.is_undo(task):
            issue = f"{task_id!r} is itself an undo; call the tools again instead"
            raise InvalidRequest([{"field": "/taskId", "issue": issue}])
        return task


def _only(plan: UndoPlan, call_id: str) -> tuple[UndoCall, ...]:
    planned = plan.find(call_id)
    return () if planned is None else (planned.call,)


def _check(plan: UndoPlan, call_id: str | None) -> None:
    """Raise if a call is named that is not there, or that cannot be taken back."""
    if call_id is None:
        return
    planned = plan.find(call_id)
    if planned is None:
        known = [each.call.id for each in plan.calls]
        listed = f" Calls with an effect are {', '.join(known)}." if known else ""
        raise NotFound(f"no call {call_id!r} of this task had an effect.{listed}")
    if planned.call.status == "impossible":
        issue = f"call {call_id} cannot be taken back: {planned.call.reason}"
        raise InvalidRequest([{"field": "/callId", "issue": issue}])


def _with_reply(undo: Undo, reply: TaskReply) -> Undo:
    """Return an undo with the state of its task."""
    error = reply.error
    if reply.blocked_on:
        error = blocked_error(reply)
    return replace(
        undo,
        status=reply.status.value,
        questions=tuple(map(question_of, reply.questions)),
        error=error,
    )


class Known(Struct, frozen=True, kw_only=True):
    """The agents, models, files, tasks and conversations that requests name."""

    agents: Catalog
    models: ModelRegistry
    projections: Projections
    attachments: AttachmentKeeper
    blobs: Blobs
    directory: Directory
    copier: TaskCopier
    children: ChildStarter
    erasure: Erasure | None
    """None without a database: nothing is erased then."""
    owner: str
    """The name of this process as the owner of leases."""


class Requests:
    """Sends messages, answers and cancellations, waits for tasks, and follows logs."""

    def __init__(
        self,
        inbox: Inbox,
        waiter: TaskWaiter,
        source: LogSource,
        undos: UndoRequests,
        *,
        known: Known,
        local: Profile,
    ) -> None:
        self.inbox = inbox
        self.waiter = waiter
        self.source = source
        self.undos = undos
        self.known = known
        self.local = local
        """The profile of work that names none."""
        self.retries = TaskRetries(
            RetryParts(
                log=source.log,
                projections=known.projections,
                blobs=known.blobs,
                inbox=inbox,
                copier=known.copier,
                attend=known.children.attend,
            )
        )

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
        answered = await self.inbox.answers.answer(
            QuestionId(question_id), body, profile or self.local
        )
        # The task reports it, too, but later: a reader that reconnects meanwhile would find the
        # tree at rest, and its stream at its end.
        await report_answer(self.source.log, self.known.projections, answered)
        return answered

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

    async def retry(
        self, task_id: str, *, resumes: bool = False, profile: Profile | None = None
    ) -> TaskRecord:
        """Start a task again that failed or was cancelled; return its newest retry.

        Raises NotFound, TaskRunning, TaskOver, TextErased, InvalidRequest and SessionBusy.
        """
        return await self.retries.retry(task_id, profile or self.local, resumes=resumes)

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
