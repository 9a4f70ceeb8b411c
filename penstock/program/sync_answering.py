"""Answers, questions and conversations of a program without async, as `SyncRuntime` has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from penstock.agents.agent import AnyAgent
from penstock.app.runtime import Runtime
from penstock.chat.python.answering import Target
from penstock.chat.python.archive import Session
from penstock.chat.recorded.fork import Fork
from penstock.chat.recorded.replay_report import NO_CHANGES, ReplayChanges, ReplayReport
from penstock.chat.recorded.undo import Undo
from penstock.core.ids import ASSISTANT
from penstock.core.reply import Message, Question, Reply, ToolCall
from penstock.program.sync_run import LoopThread

OutputT = TypeVar("OutputT")


class SyncAnswering:
    """Answers questions, and lists, reads, imports and deletes conversations."""

    def __init__(self, runtime: Runtime, thread: LoopThread) -> None:
        self._runtime = runtime
        self._thread = thread

    def wait(self, reply: Reply[OutputT], *, timeout: float | None = None) -> Reply[OutputT]:
        """Wait until the task of a reply has ended or waits for people.

        Args:
            reply: An earlier reply of the task, as before its questions were answered.
            timeout: How many seconds to wait; None waits without a limit. The task continues.

        Returns:
            Its reply now.

        Raises:
            TimeoutError: The time was up first.
        """
        return self._thread.do(self._runtime.wait(reply, timeout=timeout))

    @overload
    def approve(
        self, target: Target, *, input: Mapping[str, Any] | None = None, note: str | None = None
    ) -> None: ...
    @overload
    def approve(self, target: Reply[OutputT], *, note: str | None = None) -> Reply[OutputT]: ...
    def approve(
        self,
        target: Target | Reply[OutputT],
        *,
        input: Mapping[str, Any] | None = None,
        note: str | None = None,
    ) -> Reply[OutputT] | None:
        """Approve a call that waits for it, or all calls of a reply; see `Runtime.approve`.

        Args:
            target: A question or its id; or a reply, for all its approvals.
            input: The input to run the call with instead; it must match the tool's schema.
            note: A remark for the model.

        Returns:
            The next reply if `target` is a reply, else None.
        """
        approve: Any = self._runtime.approve
        reply: Reply[OutputT] | None = self._thread.do(approve(target, input=input, note=note))
        return reply

    @overload
    def reject(self, target: Target, reason: str) -> None: ...
    @overload
    def reject(self, target: Reply[OutputT], reason: str) -> Reply[OutputT]: ...
    def reject(self, target: Target | Reply[OutputT], reason: str) -> Reply[OutputT] | None:
        """Reject a call that waits for approval, or all calls of a reply; see `Runtime.reject`.

        Args:
            target: A question or its id; or a reply, for all its approvals.
            reason: Why, for the model.

        Returns:
            The next reply if `target` is a reply, else None.
        """
        reject: Any = self._runtime.reject
        reply: Reply[OutputT] | None = self._thread.do(reject(target, reason))
        return reply

    @overload
    def answer(self, target: Target, value: Any) -> None: ...
    @overload
    def answer(self, target: Reply[OutputT], value: Any) -> Reply[OutputT]: ...
    def answer(self, target: Target | Reply[OutputT], value: Any) -> Reply[OutputT] | None:
        """Answer a question; see `Runtime.answer`.

        Args:
            target: A question or its id; or a reply with one open question.
            value: True or False for an approval, else the answer.

        Returns:
            The next reply if `target` is a reply, else None.
        """
        answer: Any = self._runtime.answer
        reply: Reply[OutputT] | None = self._thread.do(answer(target, value))
        return reply

    def questions(self, *, session: str | None = None) -> Sequence[Question]:
        """Return the open questions, oldest first.

        Args:
            session: Only those of this conversation; None means all of the runtime's profile.

        Returns:
            The questions.
        """
        return self._thread.do(self._runtime.questions(session=session))

    def cancel(self, task_id: str) -> None:
        """Cancel a task, whatever it does. A task that has ended stays as it is.

        Args:
            task_id: The task.
        """
        self._thread.do(self._runtime.cancel(task_id))

    def undo(
        self,
        task_id: str,
        *,
        call: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Undo:
        """Take back what a task did, and wait until that has ended or waits; see `Runtime.undo`.

        Args:
            task_id: The task.
            call: Only this call: the `id` of an UndoCall, or the id that its model gave it.
            dry_run: Only return the plan; nothing changes.
            timeout: How many seconds to wait for the undo; None waits without a limit.

        Returns:
            The undo: its status, and that of each call that had an effect.
        """
        work = self._runtime.undo(task_id, call=call, dry_run=dry_run, timeout=timeout)
        return self._thread.do(work)

    def history(self, session: str) -> Sequence[Message]:
        """Return the messages of a conversation, the oldest first; see `Runtime.history`.

        Args:
            session: The conversation.

        Returns:
            Each message of a person, and each answer with its calls.
        """
        return self._thread.do(self._runtime.history(session))

    def read_output(self, call: ToolCall) -> Any:
        """Return the whole output of a call, also of one that is too long to be in a reply.

        Args:
            call: A call of `Reply.calls` or of a `ToolReturned`.

        Returns:
            Its output; None if it failed.

        Raises:
            NotFound: The output was erased.
        """
        return self._thread.do(self._runtime.read_output(call))

    def sessions(
        self, *, agent: str | AnyAgent | None = None, limit: int = 100
    ) -> Sequence[Session]:
        """Return the conversations of the runtime's profile, the newest first.

        Args:
            agent: Only those with this agent.
            limit: At most so many.

        Returns:
            The conversations.
        """
        return self._thread.do(self._runtime.sessions(agent=agent, limit=limit))

    def fork(
        self,
        task_id: str,
        *,
        at: int,
        agent: str | None = None,
        title: str | None = None,
        content: str | None = None,
    ) -> Fork:
        """Continue a copy of a task from an event in its middle; see `Runtime.fork`.

        Args:
            task_id: The task.
            at: The number of the newest event that the copy has.
            agent: Another agent that continues; only if `at` is the task's message.
            title: The title of the new conversation.
            content: Another text of the message; only if `at` is the task's message.

        Returns:
            The new task, which runs.
        """
        forked = self._runtime.fork(task_id, at=at, agent=agent, title=title, content=content)
        return self._thread.do(forked)

    def retry(self, task_id: str, *, resume: bool = False) -> str:
        """Start a task again that failed or was cancelled; see `Runtime.retry`.

        Args:
            task_id: The task.
            resume: Continue a copy of the task before its failure.

        Returns:
            The id of the new task, which runs.
        """
        return self._thread.do(self._runtime.retry(task_id, resume=resume))

    def replay(
        self,
        task_id: str,
        *,
        changes: ReplayChanges = NO_CHANGES,
        live: bool = False,
        until: int | None = None,
    ) -> ReplayReport:
        """Run a task that has ended again in memory; see `Runtime.replay`.

        Args:
            task_id: The task.
            changes: Another prompt, other settings or tools than those of the project.
            live: Go on from the first difference with the real model.
            until: The newest event to compare; None means all.

        Returns:
            How far the task is the same, and the first difference.
        """
        replayed = self._runtime.replay(task_id, changes=changes, live=live, until=until)
        return self._thread.do(replayed)

    def hand_back(self, session: str) -> str:
        """Give a conversation back to the agent that handed it off; see `Runtime.hand_back`.

        Args:
            session: The conversation. None of its tasks may be running.

        Returns:
            The name of the agent that answers the next message.
        """
        return self._thread.do(self._runtime.hand_back(session))

    def delete(self, session: str) -> None:
        """Delete a conversation, and erase its contents from the disk.

        Args:
            session: The conversation.
        """
        self._thread.do(self._runtime.delete(session))

    def import_history(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        agent: str | AnyAgent = ASSISTANT,
    ) -> str:
        """Begin a conversation with messages of another system; see `Runtime.import_history`.

        Args:
            messages: Messages of `history`, or of the chat API of OpenAI.
            agent: The agent that continues.

        Returns:
            The conversation; pass it to `chat` as `session`.
        """
        return self._thread.do(self._runtime.import_history(messages, agent=agent))

    def put_agent(self, agent: AnyAgent) -> None:
        """Add an agent, or replace the one of its name. Tasks that resume from now on use it.

        Args:
            agent: The agent.
        """
        self._thread.do(self._put(agent))

    async def _put(self, agent: AnyAgent) -> None:
        self._runtime.put_agent(agent)
