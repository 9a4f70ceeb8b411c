"""The runtime of one project, which an embedding program holds.

Each verb is one outside event, committed by `chat/inbox` when the method returns. A verb that waits
makes the request through TaskWaiter, which listens before the request is written: a fast task could
end between the two. Nothing is lost when a caller stops waiting, because the task continues in the
log. Shown by tests/app/test_runtime.py and tests/chat/test_inbox.py.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from penstock.app.runtime_parts import RuntimeParts
from penstock.chat.calls.direct_tools import how_to_allow
from penstock.chat.python.conversations import Conversations
from penstock.chat.recorded.replay_report import (
    NO_CHANGES,
    ReplayChanges,
    ReplayOptions,
    ReplayReport,
)
from penstock.chat.requests import (
    NewCall,
    NewRun,
    TaskReply,
    blocked_error,
    call_requested,
    run_requested,
)
from penstock.chat.task_requests import Requests
from penstock.core.call_errors import ToolNotFound
from penstock.core.envelope import Envelope, Status, suspended
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.late import late
from penstock.core.profile import Profile
from penstock.core.task import TaskStatus


class Runtime(Conversations):
    """One open project: chats with agents, calls tools, runs flows, takes answers.

    `penstock.open` makes one. Tasks continue by themselves: cancelling a method that waits does not
    end its task, and a task that a crash has cut resumes when the project is opened again.

    Example:
        >>> import asyncio
        >>> from penstock import tool
        >>> from penstock.testing import memory_runtime
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

    def __init__(self, parts: RuntimeParts, requests: Requests) -> None:
        super().__init__(requests, parts.world.new_id)
        self.parts = parts
        self.local = requests.local
        """The profile of work that names none."""
        self.schedules = parts.chat.schedules
        """The tasks that start by themselves at due times."""
        self._inbox = requests.inbox
        self._waiter = requests.waiter
        self._opening: AbstractAsyncContextManager[Any, Any] | None = None

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

    async def start_call(
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

    async def replay(
        self,
        task_id: str,
        *,
        changes: ReplayChanges = NO_CHANGES,
        live: bool = False,
        until: int | None = None,
        profile: Profile | None = None,
    ) -> ReplayReport:
        """Run a task that has ended again in memory, and report the first difference.

        The project is the one that is open. Replies of models and outcomes of tools are those of
        the log while their requests are the same, so nothing is asked, written or paid.

        Args:
            task_id: The task.
            changes: Another prompt, other settings or tools than those of the project.
            live: Go on from the first difference with the real model, and with tools that only
                read. A tool that writes never runs: its call ends the replay.
            until: The newest event to compare; None means all.
            profile: The profile whose task it is; None means `runtime.local`.

        Returns:
            How far the task is the same, and the first difference.

        Raises:
            NotFound: There is no such task, or no tool that `changes` names.
            TaskRunning: The task has not ended.
            TextErased: Something of the conversation was erased.
            ConfigError: `changes` names something that cannot be changed.
        """
        run: Callable[..., Awaitable[ReplayReport]] = late("penstock.app.trial.replay:replay")
        options = ReplayOptions(changes=changes, live=live, until=until)
        return await run(self, task_id, options, profile or self.local)

    async def close(self) -> None:
        """Close the runtime: accept no new work, suspend running tasks, and end every iteration.

        What is unfinished resumes when the project is opened again. A runtime in `async with` is
        closed by the end of its block.
        """
        opening, self._opening = self._opening, None
        if opening is not None:
            await opening.__aexit__(None, None, None)
        else:
            await self.close_parts()

    async def close_parts(self) -> None:
        """Close what this runtime consists of, but not the store; `close` closes all."""
        self._loop = None
        engine = self.parts.engine
        await engine.launcher.close()
        await engine.relay.close()
        self.parts.tools.invoker.threads.close()
        engine.bus.close()
        await self.parts.chat.models.close()

    def close_with(self, opening: AbstractAsyncContextManager[Any, Any]) -> None:
        """Close what opened this runtime when the runtime is closed: its store, too.

        Args:
            opening: The context manager that returned this runtime.
        """
        self._opening = opening

    def _task_id(self, chosen: TaskId | None) -> TaskId:
        return chosen or TaskId(self.parts.world.new_id("task"))

    def _explained(self, tool_id: str, envelope: Envelope) -> Envelope:
        """Add to a ToolNotFound that the tool exists and does not allow direct calls."""
        error = envelope.error
        if error is None or error.code != ToolNotFound.code:
            return envelope
        tool = self.parts.tools.invoker.registry.by_id.get(tool_id)
        if tool is None:
            return envelope
        message = f"the tool {tool_id!r} does not allow direct calls: {how_to_allow(tool.spec)}"
        return replace(envelope, error=replace(error, message=message))


def outcome_of(reply: TaskReply) -> Envelope:
    """Return the outcome of a call or a run as an envelope; `suspended` lists its questions."""
    if reply.envelope is not None:
        return reply.envelope
    if reply.error is not None:
        return Envelope(Status.FAILED, None, reply.error)
    if reply.status is TaskStatus.BLOCKED:
        return Envelope(Status.SUSPENDED, None, blocked_error(reply))
    question_ids = [each.question.question_id for each in reply.questions]
    runs = {"run_ids": list(reply.runs)} if reply.runs else {}
    return suspended(question_ids, task_id=reply.task_id, **runs)
