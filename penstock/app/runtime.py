"""The runtime of one project, which an embedding program holds.

Each verb is one outside event, committed by `chat/inbox` when the method returns. A verb that waits
makes the request through TaskWaiter, which listens before the request is written: a fast task could
end between the two. Nothing is lost when a caller stops waiting, because the task continues in the
log. Shown by tests/app/test_runtime.py and tests/chat/test_inbox.py.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.attachments.content import Content
from penstock.agents.attachments.keeper import KeptContent
from penstock.app.runtime_parts import RuntimeParts
from penstock.chat.direct_tools import how_to_allow
from penstock.chat.inbox import Inbox
from penstock.chat.log_follower import LogSource, follow, texts
from penstock.chat.requests import (
    NewCall,
    NewMessage,
    NewRun,
    Reply,
    SentMessage,
    call_requested,
    run_requested,
)
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.call_errors import ToolNotFound
from penstock.core.envelope import Envelope, ErrorDetail, Status, suspended
from penstock.core.events.events import TaskSuspended
from penstock.core.ids import ASSISTANT, LogId, QuestionId, SessionId, TaskId
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.task import QuestionRecord, TaskRecord, TaskStatus, blocked
from penstock.engine.bus import Live

BLOCKED = "BLOCKED"


class Runtime:
    """One open project: chats with agents, calls tools, runs flows, takes answers.

    `penstock.open` makes one. Tasks continue by themselves: cancelling a method that waits does not
    end its task, and a task that a crash has cut resumes when the project is opened again.

    Example:
        >>> import asyncio
        >>> from penstock import tool
        >>> from penstock.testing.runtime import memory_runtime
        >>> @tool(effect="none", direct_call=True)
        ... def area(width: float, height: float) -> float:
        ...     '''Return the area of a rectangle.'''
        ...     return width * height
        >>> async def main() -> None:
        ...     async with memory_runtime(tools=[area]) as runtime:
        ...         envelope = await runtime.call("area", {"width": 2, "height": 3})
        ...         print(envelope.status, envelope.output)
        >>> asyncio.run(main())
        success 6.0
    """

    def __init__(
        self, parts: RuntimeParts, inbox: Inbox, waiter: TaskWaiter, local: Profile = LOCAL_PROFILE
    ) -> None:
        self.parts = parts
        self.local = local
        """The profile of work that names none."""
        self._inbox = inbox
        self._waiter = waiter

    async def chat(
        self,
        content: Content,
        *,
        agent: str | Agent = ASSISTANT,
        session_id: str | None = None,
        profile: Profile | None = None,
    ) -> Reply:
        """Send a message to an agent, and wait for its answer or its question.

        A task that failed is a Reply too: look at `status` and `error`.

        Args:
            content: The message: a text, or a list of texts, `Image`, `Document` and `Audio`.
            agent: The name of an agent of the project, or an Agent of the program, which the
                runtime then knows by its name.
            session_id: The conversation to continue; None starts one.
            profile: The profile that the work is for; None means `runtime.local`.

        Returns:
            The reply. With the status `suspended` it has open `questions`, see `answer`.

        Raises:
            NotFound: There is no such agent or conversation.
            InvalidRequest: The content is blank or too long, or a file of it is refused.
            QuestionOpen: The conversation waits for an answer that this message is not.
            SessionBusy: Too many messages wait in the conversation.
        """
        agents, task_id = self.parts.chat.agents, self._task_id(None)
        name = agents.get(agent).name if isinstance(agent, str) else agents.add(agent).name
        kept = (
            KeptContent(content) if isinstance(content, str) else await self.keep(content, profile)
        )
        message = NewMessage(
            content=kept.text, attachments=kept.files, agent=name, session_id=session_id
        )
        request = self._inbox.request_reply(message, profile or self.local, task_id)
        return await self._waiter.reply_to(task_id, request)

    async def keep(self, content: Content, profile: Profile | None = None) -> KeptContent:
        """Store the files of a content, for a NewMessage.

        Args:
            content: Texts and files in the order in which they are meant.
            profile: The profile that the work is for; None means `runtime.local`.

        Returns:
            The text for `NewMessage.content`, and the files for `NewMessage.attachments`.

        Raises:
            InvalidRequest: A file is too large, of an unknown type, broken or missing.
        """
        return await self.parts.chat.attachments.keep(content, profile or self.local)

    async def send(self, message: NewMessage, profile: Profile | None = None) -> SentMessage:
        """Send a message without waiting for its answer; it is on disk when this returns.

        Args:
            message: The message, its agent and its conversation.
            profile: The profile that the work is for; None means `runtime.local`.

        Returns:
            The conversation and the task of the message, for `stream` and `wait`.

        Raises:
            NotFound: There is no such agent or conversation.
            InvalidRequest: The content is blank or too long.
            ConfigError: The model is unknown, or its key or library is missing.
            QuestionOpen: The conversation waits for an answer that this message is not.
            SessionBusy: Too many messages wait in the conversation, or an event newer than `head`
                exists.
            IdempotencyConflict: The key was used for another request.
        """
        chat = self.parts.chat
        chat.agents.get(message.agent)
        if message.model is not None:
            await chat.models.look_up(message.model)
            chat.models.get(message.model)
        return await self._inbox.send(message, profile or self.local)

    async def wait(self, task_id: str, *, seconds: float | None = None) -> Reply | None:
        """Wait until a task has ended or waits for a person.

        Args:
            task_id: The task.
            seconds: How long to wait; None waits without a limit. The task continues afterwards.

        Returns:
            Its reply, or None if the time was up first.

        Raises:
            NotFound: There is no such task.
        """
        return await self._waiter.wait(TaskId(task_id), seconds)

    async def call(
        self,
        tool_id: str,
        input: dict[str, Any],
        *,
        profile: Profile | None = None,
        task_id: TaskId | None = None,
    ) -> Envelope:
        """Call a tool that allows direct calls, and wait for its outcome.

        Args:
            tool_id: The tool.
            input: The input; it must match `input_schema`.
            profile: The profile that the work is for; None means `runtime.local`.
            task_id: An id for its task, so that you can cancel it meanwhile; None makes one.

        Returns:
            The outcome; failures are envelopes, too. `error.details` names open questions.

        Raises:
            InvalidRequest: The input is not JSON, or is nested too deeply.
        """
        call = NewCall(tool_id=tool_id, input=input)
        task_id, requested = self._task_id(task_id), call_requested(call, profile or self.local)
        request = self._inbox.request(LogId(task_id), task_id, requested)
        reply = await self._waiter.reply_to(task_id, request)
        return self._explained(tool_id, outcome_of(reply))

    async def request(
        self,
        call: NewCall,
        profile: Profile | None = None,
        *,
        task_id: TaskId | None = None,
    ) -> TaskId:
        """Start a direct call without waiting for its outcome; it is on disk when this returns.

        Args:
            call: The tool, its input, and the conversation in which it takes its turn.
            profile: The profile that the work is for; None means `runtime.local`.
            task_id: An id for its task; None makes one.

        Returns:
            The task. A request with a key that was used for the same request returns its task.

        Raises:
            InvalidRequest: The input is not JSON, or is nested too deeply.
            NotFound: There is no such conversation.
            SessionBusy: Too many messages and calls wait in the conversation.
            IdempotencyConflict: The key was used for another request.
        """
        profile, task_id = profile or self.local, self._task_id(task_id)
        requested = call_requested(call, profile)
        if call.session_id is not None:
            await self._inbox.check_session(SessionId(call.session_id), profile)
        log_id = LogId(call.session_id or task_id)
        return await self._inbox.request(log_id, task_id, requested)

    async def run_flow(
        self, run: NewRun, *, profile: Profile | None = None, task_id: TaskId | None = None
    ) -> Envelope:
        """Run a flow, and wait until it has ended or waits for a person.

        Args:
            run: The flow and its inputs.
            profile: The profile that the work is for; None means `runtime.local`.
            task_id: An id for the run; None makes one.

        Returns:
            The outcome, with a FlowResult as its output; `error.details` names open questions.

        Raises:
            InvalidRequest: The inputs are not JSON, or are nested too deeply.
            IdempotencyConflict: The key was used for another request.
        """
        task_id = self._task_id(task_id)
        request = self.start_flow(run, profile=profile, task_id=task_id)
        return outcome_of(await self._waiter.reply_to(task_id, request))

    async def start_flow(
        self, run: NewRun, *, profile: Profile | None = None, task_id: TaskId | None = None
    ) -> TaskId:
        """Start a run of a flow without waiting for its end; it is on disk when this returns.

        Args:
            run: The flow and its inputs.
            profile: The profile that the work is for; None means `runtime.local`.
            task_id: An id for the run; None makes one.

        Returns:
            The task of the run, for `wait` and `cancel`.

        Raises:
            InvalidRequest: The inputs are not JSON, or are nested too deeply.
            IdempotencyConflict: The key was used for another request.
        """
        profile, task_id = profile or self.local, self._task_id(task_id)
        requested = run_requested(run, profile)
        return await self._inbox.request(LogId(task_id), task_id, requested)

    async def answer(
        self,
        question_id: str,
        body: Mapping[str, Any],
        *,
        profile: Profile | None = None,
    ) -> QuestionRecord:
        """Answer a question. Its task resumes by itself.

        Args:
            question_id: The question, from `Reply.questions`.
            body: The answer, such as `{"decision": "approve"}`, `{"text": "..."}`,
                `{"value": ...}` or `{"cancel": true}`.
            profile: The profile that the work is for; None means `runtime.local`.

        Returns:
            The question with its answer. The same answer again changes nothing.

        Raises:
            NotFound: There is no such question.
            Forbidden: The profile may not answer it.
            InvalidAnswer: The answer does not fit the question.
            AlreadyAnswered: Another answer came first.
            QuestionClosed: Its task has ended, or its time is up.
        """
        return await self._inbox.answer(QuestionId(question_id), body, profile or self.local)

    async def cancel(self, task_id: str, *, profile: Profile | None = None) -> TaskRecord:
        """Cancel a task, whatever its status.

        Args:
            task_id: The task.
            profile: The profile that the work is for; None means `runtime.local`.

        Returns:
            The task as lists show it, which may be before it has ended: `wait` for that.

        Raises:
            NotFound: There is no such task.
            TaskOver: It has ended.
        """
        return await self._inbox.cancel(TaskId(task_id), profile or self.local)

    def follow(
        self, log_id: str, *, after: int = 0, task_id: str | None = None
    ) -> AsyncGenerator[Live, None]:
        """Yield the events of a log after a place in it, then new ones, each exactly once.

        Ends when the runtime closes, or when the reader was too slow: follow again from the last
        `seq` then.

        Args:
            log_id: A conversation, or the log of a direct call or a run.
            after: The `seq` of the last event that the reader has; 0 is the beginning.
            task_id: Only this task, and end with it; None is the whole log.
        """
        task = None if task_id is None else TaskId(task_id)
        return follow(self._source, LogId(log_id), after=after, task_id=task)

    def stream(self, sent: SentMessage) -> AsyncGenerator[str, None]:
        """Yield the text of the answer to a message as it comes, from its beginning.

        Ends when the task has ended or waits for a person: `wait` says which. A reply that began
        again after a failure is yielded again.

        Args:
            sent: What `send` returned.
        """

        async def is_waiting(event: TaskSuspended) -> bool:
            reply = await self.wait(sent.task_id, seconds=0)
            if reply is None or reply.status is not TaskStatus.SUSPENDED:
                return False
            asked = {each.question.question_id for each in reply.questions}
            return asked.issuperset(event.questions) and reply.runs == event.runs

        return texts(self._source, LogId(sent.session_id), sent.task_id, is_waiting)

    async def close(self) -> None:
        """Accept no new work, suspend running tasks and end every stream; the store stays open."""
        engine = self.parts.engine
        await engine.launcher.close()
        await engine.relay.close()
        self.parts.tools.invoker.threads.close()
        engine.bus.close()
        await self.parts.chat.models.close()

    def _task_id(self, chosen: TaskId | None) -> TaskId:
        return chosen or TaskId(self.parts.world.new_id("task"))

    def _explained(self, tool_id: str, envelope: Envelope) -> Envelope:
        """Add to a ToolNotFound that the tool exists and does not allow direct calls."""
        error = envelope.error
        if error is None or error.code != ToolNotFound.code:
            return envelope
        tool = self.parts.tools.invoker.registry.find(tool_id)
        if tool is None:
            return envelope
        message = f"the tool {tool_id!r} does not allow direct calls: {how_to_allow(tool.spec)}"
        return replace(envelope, error=replace(error, message=message))

    @property
    def _source(self) -> LogSource:
        parts = self.parts
        return LogSource(log=parts.storage.log, bus=parts.engine.bus, limits=parts.world.limits)


def outcome_of(reply: Reply) -> Envelope:
    """Return the outcome of a call or a run as an envelope; `suspended` lists its questions."""
    if reply.envelope is not None:
        return reply.envelope
    if reply.error is not None:
        return Envelope(Status.FAILED, None, reply.error)
    if reply.status is TaskStatus.BLOCKED:
        blocked_on = [each.to_wire() for each in reply.blocked_on]
        error = ErrorDetail(
            code=BLOCKED,
            message=blocked(reply.blocked_on),
            retryable=True,
            details={"blocked_on": blocked_on, "task_id": reply.task_id},
        )
        return Envelope(Status.SUSPENDED, None, error)
    question_ids = [each.question.question_id for each in reply.questions]
    runs = {"run_ids": list(reply.runs)} if reply.runs else {}
    return suspended(question_ids, task_id=reply.task_id, **runs)
