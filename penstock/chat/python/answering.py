"""Answers of a program to the questions of its tasks, and the wait for what follows."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, overload

from msgspec.structs import replace
from typing_extensions import TypeVar

from penstock.chat.python.recorded_task import RecordedTask
from penstock.chat.recorded.task_records import records_of
from penstock.chat.recorded.undo import Undo
from penstock.chat.requests import TaskReply, answered_by, question_of, reply_of
from penstock.chat.task_requests import Requests
from penstock.core.errors import NotFound, RuntimeMisuse, TaskOver
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.reply import Question, Reply
from penstock.core.task import QuestionKind, QuestionRecord, QuestionStatus, TaskRecord
from penstock.store.projections import Page

OutputT = TypeVar("OutputT")
_TEXT = RecordedTask(())
_MOST = 1_000
"""Open questions that are listed at once."""
Target = Question | str
"""A question, or its id."""


class ReplyReader:
    """Waits for tasks by their ids, and reads them as replies."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def reply(
        self,
        task_id: str,
        timeout: float | None = None,  # noqa: ASYNC109
        form: RecordedTask = _TEXT,
    ) -> Reply[Any]:
        """Wait until a task has ended or waits. Raises TimeoutError, NotFound."""
        reply = await self._requests.wait(task_id, seconds=timeout)
        if reply is None:
            raise TimeoutError(f"task {task_id} still works after {timeout} seconds; it continues")
        return await self.read(reply, form)

    async def read(self, reply: TaskReply, form: RecordedTask) -> Reply[Any]:
        """Return the reply of a task with its events from the log."""
        task = await self.find_task(reply.task_id)
        records = await records_of(self._requests.source.log, task)
        agent = answered_by(records, task.agent)
        return reply_of(reply, agent, replace(form, records=records))

    async def find_task(self, task_id: str) -> TaskRecord:
        """Return the record of a task. Raises NotFound."""
        task = await self._requests.known.projections.find_task(TaskId(task_id))
        if task is None:
            raise NotFound(f"there is no task {task_id!r}")
        return task


class Answering:
    """Answers questions, cancels tasks, and waits for them."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        """The same verbs by ids and in their wire forms, for servers and commands."""
        self._replies = ReplyReader(requests)

    async def wait(
        self,
        reply: Reply[OutputT],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Reply[OutputT]:
        """Wait until the task of a reply has ended or waits for people.

        Args:
            reply: An earlier reply of the task, as before its questions were answered.
            timeout: How many seconds to wait; None waits without a limit. The task continues.

        Returns:
            Its reply now.

        Raises:
            RuntimeMisuse: It is not a reply.
            TimeoutError: The time was up first.
            NotFound: The task does not exist any more.
        """
        if not isinstance(reply, Reply):
            raise RuntimeMisuse(f"wait takes a reply, such as that of chat(...); found {reply!r}")
        recorded = reply.recorded
        form = recorded if isinstance(recorded, RecordedTask) else _TEXT
        return await self._replies.reply(reply.task_id, timeout, form)

    @overload
    async def approve(
        self, target: Target, *, input: Mapping[str, Any] | None = None, note: str | None = None
    ) -> None: ...
    @overload
    async def approve(
        self, target: Reply[OutputT], *, note: str | None = None
    ) -> Reply[OutputT]: ...
    async def approve(
        self,
        target: Target | Reply[OutputT],
        *,
        input: Mapping[str, Any] | None = None,
        note: str | None = None,
    ) -> Reply[OutputT] | None:
        """Approve a call that waits for it, or all calls of a reply.

        Args:
            target: A question or its id. Or a reply: then all its approvals, and the wait for what
                follows.
            input: The input to run the call with instead; it must match the tool's schema.
            note: A remark for the model.

        Returns:
            The next reply if `target` is a reply, else None.

        Raises:
            RuntimeMisuse: The reply has no open approval.
            NotFound: There is no such question.
            InvalidAnswer: The question is not an approval, or the input does not fit.
            AlreadyAnswered: Another answer came first.
            QuestionClosed: The task has ended, or the time is up.
        """
        decision = {"decision": "approve", "input": input, "note": note}
        return await self._decide(target, decision)

    @overload
    async def reject(self, target: Target, reason: str) -> None: ...
    @overload
    async def reject(self, target: Reply[OutputT], reason: str) -> Reply[OutputT]: ...
    async def reject(self, target: Target | Reply[OutputT], reason: str) -> Reply[OutputT] | None:
        """Reject a call that waits for approval, or all calls of a reply.

        Args:
            target: A question or its id. Or a reply: then all its approvals, and the wait for what
                follows.
            reason: Why, for the model.

        Returns:
            The next reply if `target` is a reply, else None.

        Raises:
            RuntimeMisuse: The reply has no open approval.
            PenstockError: The question cannot be answered so; see `approve`.
        """
        return await self._decide(target, {"decision": "reject", "note": reason})

    @overload
    async def answer(self, target: Target, value: Any) -> None: ...
    @overload
    async def answer(self, target: Reply[OutputT], value: Any) -> Reply[OutputT]: ...
    async def answer(self, target: Target | Reply[OutputT], value: Any) -> Reply[OutputT] | None:
        """Answer a question.

        Args:
            target: A question or its id. Or a reply with one open question: then the wait for what
                follows, too.
            value: True or False for an approval, one of `options` for a choice (a list if it takes
                several), a text, or JSON that fits the schema of a form.

        Returns:
            The next reply if `target` is a reply, else None.

        Raises:
            RuntimeMisuse: The reply has no open question, or several.
            PenstockError: The question cannot be answered so; see `approve`.
        """
        if isinstance(target, Reply):
            if len(target.questions) != 1:
                raise RuntimeMisuse(
                    f"the reply has {len(target.questions)} open questions: answer each of "
                    "`reply.questions`, then `await runtime.wait(reply)`"
                )
            await self.answer(target.questions[0], value)
            return await self.wait(target)
        record = await self._question(_id_of(target))
        await self.requests.answer(record.question.question_id, _body(record, value))
        return None

    async def questions(self, *, session: str | None = None) -> Sequence[Question]:
        """Return the open questions, oldest first.

        Args:
            session: Only those of this conversation; None means all of the runtime's profile.

        Returns:
            The questions.
        """
        projections, local = self.requests.known.projections, self.requests.local
        if session is not None:
            return [question_of(each) for each in await projections.open_questions(LogId(session))]
        owner = None if local.everything else local.profile_id
        records, _ = await projections.questions(
            profile_id=owner, status=QuestionStatus.OPEN, page=Page(limit=_MOST)
        )
        return [question_of(record) for record in records]

    async def cancel(self, task_id: str) -> None:
        """Cancel a task, whatever it does. A task that has ended stays as it is.

        Args:
            task_id: The task.

        Raises:
            NotFound: There is no such task.
        """
        with suppress(TaskOver):
            await self.requests.cancel(task_id)

    async def undo(
        self,
        task_id: str,
        *,
        call: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Undo:
        """Take back what a task did, and wait until that has ended or waits for people.

        The reverts of its calls run in reverse order, each once; see `docs/undo.md`. A task that
        has not ended is cancelled first.

        Args:
            task_id: The task.
            call: Only this call: the `id` of an UndoCall, or the id that its model gave it.
            dry_run: Only return the plan; nothing changes.
            timeout: How many seconds to wait for the undo, which continues; None means no limit.

        Returns:
            The undo: its status, and that of each call that had an effect.

        Raises:
            NotFound: There is no such task, or no such call in it.
            InvalidRequest: The task is itself an undo, or the call cannot be taken back.

        Example:
            >>> import asyncio
            >>> from penstock import tool
            >>> from penstock.testing import memory_runtime
            >>> @tool
            ... def close_account(input: dict[str, str], output: str) -> None:
            ...     '''Close the account that was opened.'''
            >>> @tool(direct_call=True, revert=close_account)
            ... def open_account(name: str) -> str:
            ...     '''Open an account.'''
            ...     return f"account of {name}"
            >>> async def main() -> None:
            ...     async with memory_runtime(tools=[open_account, close_account]) as runtime:
            ...         await runtime.call("open_account", {"name": "Ann"}, task_id="task_1")
            ...         undo = await runtime.undo("task_1")
            ...         print(undo.status, [(each.tool, each.status) for each in undo.calls])
            >>> asyncio.run(main())
            succeeded [('open_account', 'undone')]
        """
        undos, local = self.requests.undos, self.requests.local
        if dry_run:
            return await undos.plan(task_id, call, local)
        undo = await undos.start(task_id, call, local)
        return await undos.result(task_id, undo, local, seconds=timeout)

    async def _decide(
        self, target: Target | Reply[OutputT], decision: Mapping[str, Any]
    ) -> Reply[OutputT] | None:
        body = {name: value for name, value in decision.items() if value is not None}
        if not isinstance(target, Reply):
            await self.requests.answer(_id_of(target), body)
            return None
        approvals = [each for each in target.questions if each.kind == "approval"]
        if not approvals:
            others = ", ".join(each.kind for each in target.questions)
            hint = f". It asks {others}: use `runtime.answer(question, value)`" if others else ""
            raise RuntimeMisuse(
                f"the task {target.task_id!r} has no open approval: it is {target.status}{hint}"
            )
        for question in approvals:
            await self.requests.answer(question.id, body)
        return await self.wait(target)

    async def _question(self, question_id: str) -> QuestionRecord:
        record = await self.requests.known.projections.find_question(QuestionId(question_id))
        if record is None:
            raise NotFound(f"there is no question {question_id!r}")
        return record


def _id_of(target: Target) -> str:
    if isinstance(target, str):
        return target
    if not isinstance(target, Question):
        raise RuntimeMisuse(f"wanted a reply, a question or its id, found {target!r}")
    return target.id


def _body(record: QuestionRecord, value: Any) -> dict[str, Any]:
    """Return an answer in its wire form; `engine/answers` checks it."""
    kind = record.question.kind
    if kind is QuestionKind.APPROVAL and isinstance(value, bool):
        return {"decision": "approve" if value else "reject"}
    if kind is QuestionKind.APPROVAL:
        return {"decision": value}
    return {"text": value} if kind is QuestionKind.USER_MESSAGE else {"value": value}
