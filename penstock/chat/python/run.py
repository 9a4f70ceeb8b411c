"""Run: a task that is on disk, its events from the beginning, and its reply.

Guarantees: each iteration yields every event of the task once, in order; leaving it neither stops
nor slows the task. How: an iteration is a position in the log and holds nothing that must be
closed. It reads the stored events of the task first, then live ones with the text of replies while
they stream. A reader that is too slow loses its place in the live stream and reads the gap from the
log. While a task waits for runs of flows, the iteration polls, because their questions are in
other logs.

Relies on `chat/log_follower` and `chat/python/run_events`. Shown by tests/chat/python/test_run.py.
"""

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Generic, NoReturn

from penstock.chat.log_follower import LogTail
from penstock.chat.python.answering import Answering, ReplyReader
from penstock.chat.python.public_events import Ended, Event, Text
from penstock.chat.python.recorded_task import RecordedTask
from penstock.chat.python.run_events import RunEvents
from penstock.chat.requests import TaskReply, question_of
from penstock.chat.task_waiter import STOPPED
from penstock.core.errors import NotReady, RuntimeMisuse
from penstock.core.events.events import Record, TaskBlocked, TaskEnded, TaskSuspended
from penstock.core.ids import TaskId
from penstock.core.late import late
from penstock.core.reply import OutputT_co, Question, Reply
from penstock.core.task import TaskRecord, TaskStatus
from penstock.engine.bus import Live

_START = "write `run = await runtime.start(...)` and `async for event in run: ...`"
_ITERATE = "write `async for event in run: ...`"
_FOR = f"{_ITERATE}, or use penstock.open_sync in a program without async"
_WAITS = (TaskSuspended, TaskBlocked)


class Run(Generic[OutputT_co]):
    """A task that is on disk: iterate over its events, wait for its reply, answer, cancel.

    `Runtime.start` and `Runtime.attach` return it. Iterate as often as you want, each time from the
    beginning. Leaving the loop does not cancel the task. The iteration ends when the task has ended
    or waits only for people.

    Example:
        >>> import asyncio
        >>> from penstock.testing import ScriptedModel, memory_runtime, say
        >>> model = ScriptedModel([say("Good ", "morning.")])
        >>> async def main() -> None:
        ...     async with memory_runtime(model=model) as runtime:
        ...         run = await runtime.start("Hello")
        ...         async for event in run:
        ...             print(event)
        >>> asyncio.run(main())
        Text(text='Good ', depth=0, path=())
        Text(text='morning.', depth=0, path=())
        Ended(status='succeeded', depth=0, path=())
    """

    __slots__ = ("_answering", "_form", "_replies", "_session", "_task", "task_id")

    def __init__(
        self,
        answering: Answering,
        replies: ReplyReader,
        task_id: str,
        form: RecordedTask,
        *,
        session: str = "",
    ) -> None:
        self.task_id = task_id
        """The task; `Runtime.attach` takes it, also in another process."""
        self._answering = answering
        self._replies = replies
        self._session = session
        self._form = form
        self._task: TaskRecord | None = None

    @property
    def session(self) -> str:
        """The conversation.

        Raises:
            RuntimeMisuse: The run was attached to a task, and nothing was read of it yet.
        """
        if not self._session:
            raise RuntimeMisuse("the conversation is known once you have awaited `run.reply()`")
        return self._session

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return the events as `events` does."""
        return self.events()

    async def events(self, *, wait_for_answers: bool = False) -> AsyncIterator[Event]:
        """Yield the events of the task from its beginning.

        Args:
            wait_for_answers: Whether to continue while the task waits for people, until it ends.

        Yields:
            The events. The last one is Ended.

        Raises:
            NotFound: There is no such task.
            NotReady: The runtime was closed while the task runs.
        """
        task, shown = await self._found(), RunEvents()
        tail = LogTail(self._answering.requests.source, task.log_id, after=task.first_seq - 1)
        waits: TaskSuspended | TaskBlocked | None = None
        try:
            while True:
                for item in await self._taken(tail, is_polling=waits is not None):
                    for event in shown.feed(item):
                        yield event
                    if isinstance(item, Record):
                        if type(item.event) is TaskEnded:
                            return
                        waits = item.event if isinstance(item.event, _WAITS) else None
                if waits is not None and not tail.has_more:
                    reply = await self._standstill(waits)
                    for event in _elsewhere(reply, shown):
                        yield event
                    if reply is not None and not wait_for_answers:
                        yield Ended("suspended")
                        return
        finally:
            tail.close()

    async def text(self) -> AsyncIterator[str]:
        """Yield the text of the answer in pieces, as it is written.

        Ends as the iteration over the run does. A reply that starts again after a failure is
        yielded again from its beginning.

        Yields:
            Pieces of text.

        Raises:
            NotFound: There is no such task.
            NotReady: The runtime was closed while the task runs.
        """
        async for event in self.events():
            if type(event) is Text and not event.depth:
                yield event.text

    async def reply(self, *, timeout: float | None = None) -> Reply[OutputT_co]:  # noqa: ASYNC109
        """Wait until the task has ended or waits for people.

        Args:
            timeout: How many seconds to wait; None waits without a limit. The task continues.

        Returns:
            The reply.

        Raises:
            TimeoutError: The time was up first.
            NotFound: There is no such task.
            NotReady: The runtime was closed while the task runs.
        """
        reply = await self._replies.reply(self.task_id, timeout, self._form)
        self._session = reply.session
        return reply

    async def cancel(self) -> None:
        """Cancel the task, whatever its status. A task that has ended stays as it is.

        Raises:
            NotFound: There is no such task.
        """
        await self._answering.cancel(self.task_id)

    async def approve(
        self,
        question: Question | str,
        *,
        input: Mapping[str, Any] | None = None,
        note: str | None = None,
    ) -> None:
        """Approve a call, as `Runtime.approve` does.

        Args:
            question: The question, or its id.
            input: The input to run with instead.
            note: A remark for the model.
        """
        await self._answering.approve(question, input=input, note=note)

    async def reject(self, question: Question | str, reason: str) -> None:
        """Reject a call, as `Runtime.reject` does.

        Args:
            question: The question, or its id.
            reason: Why, for the model.
        """
        await self._answering.reject(question, reason)

    async def answer(self, question: Question | str, value: Any) -> None:
        """Answer a question, as `Runtime.answer` does.

        Args:
            question: The question, or its id.
            value: The answer.
        """
        await self._answering.answer(question, value)

    def __iter__(self) -> NoReturn:
        """Refuse a `for` without `async`."""
        raise RuntimeMisuse(_FOR)

    async def __aenter__(self) -> NoReturn:
        """Refuse `async with`: leaving an iteration needs no clean-up."""
        raise RuntimeMisuse(f"{_ITERATE}: a run needs no `async with`")

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        """Return the run with its task."""
        return f"Run(task_id={self.task_id!r})"

    def _ipython_display_(self) -> None:
        """Show the run in a notebook while it works."""
        show: Callable[[object], None] = late("penstock.chat.python.live_view:show")
        show(self)

    async def _found(self) -> TaskRecord:
        """Return the record of the task. Raises NotFound."""
        if self._task is None:
            self._task = await self._replies.find_task(self.task_id)
            self._session = self._task.log_id
        return self._task

    async def _taken(self, tail: LogTail, *, is_polling: bool) -> Sequence[Live]:
        """Return the next items of the task; possibly none while `is_polling`."""
        while True:
            if not tail.has_more:
                await tail.more()
            if not tail.has_more:
                items = await tail.look() or ()
            elif (ready := await tail.take_ready()) is None:
                self._task = None
                await self._found()
                raise NotReady(STOPPED)
            else:
                items = ready
            own = [item for item in items if _task_of(item) == self.task_id]
            if own or is_polling:
                return own

    async def _standstill(self, event: TaskSuspended | TaskBlocked) -> TaskReply | None:
        """Return the reply of the task if it still waits where this event left it."""
        reply = await self._answering.requests.wait(self.task_id, seconds=0)
        if reply is None:
            return None
        if isinstance(event, TaskBlocked):
            return reply if reply.status is TaskStatus.BLOCKED else None
        asked = {each.question.question_id for each in reply.questions}
        is_there = asked.issuperset(event.questions) and reply.runs == event.runs
        return reply if is_there and reply.status is TaskStatus.SUSPENDED else None


class StartingRun(Coroutine[Any, Any, Run[OutputT_co]]):
    """A message that is about to be sent, as `Runtime.start` returns it: await it for its Run.

    `async for` over it sends the message, too, and yields the events of its run.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, Run[OutputT_co]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, Run[OutputT_co]]:
        """Send the message, and return its run."""
        return self._work.__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Send the message, and yield the events of its run."""
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        async for event in await self._work:
            yield event

    def __iter__(self) -> NoReturn:
        """Refuse a `for` without `async`."""
        self.close()
        raise RuntimeMisuse(_FOR)

    async def __aenter__(self) -> NoReturn:
        """Refuse `async with`: leaving an iteration needs no clean-up."""
        self.close()
        raise RuntimeMisuse(f"{_START}: a run needs no `async with`")

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    # asyncio.create_task and asyncio.run take coroutines only, not everything that can be awaited.
    def send(self, value: Any, /) -> Any:
        """Run the next step."""
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine, and run its next step."""
        return self._work.throw(*error)

    def close(self) -> None:
        """Close the coroutine: the message is not sent."""
        self._work.close()


def _elsewhere(reply: TaskReply | None, shown: RunEvents) -> Iterator[Event]:
    """Yield the questions of runs that the task waits for; its own are in its log."""
    for record in () if reply is None else reply.questions:
        if asked := shown.asks(question_of(record)):
            yield asked


def _task_of(item: Live) -> TaskId | None:
    return item.task_id if isinstance(item, Record) else item.reply.task_id
