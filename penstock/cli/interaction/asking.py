"""Asks a person at the terminal: one question, or all questions of a task and its nested runs.

`Asker` guarantees: the person is asked each question once, although it may arrive twice (as an
event of the task, and from the list of open questions). A prompt ends by itself when the question
is answered elsewhere, for example in a browser. An invalid answer is reported, and the prompt
appears again.

Relies on the main thread: `Background` runs the event loop, so a prompt does not stop other calls.
Text that was typed before the prompt is discarded, because it was not meant as the answer.

`asked_below` guarantees: a question in a run that the task waits for, at any depth and whichever
process works on it, is reported within `poll_seconds` while the task works, and at once when the
task suspends. A task's own log names these runs only when it suspends, so until then the open
questions of the project are polled; the first event of a run names the task that waits for it. This
costs one query of a page of open questions per second, only while a person watches at a terminal.
It relies on fewer than a page of questions being newer than the wanted one; a question missed for
that reason is asked when the task suspends.

Proof: tests/cli/interaction/test_asking.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec import convert
from rich.console import Console

from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.chat.wire_forms import question_record
from penstock.cli.completion import answer_completer, how_to_answer
from penstock.cli.interaction.loop_thread import Background, on_interrupt
from penstock.cli.terminal.keyboard import Complete, IsOver, forget_typed, never, nothing, read_line
from penstock.cli.terminal.output import clean, compact, hanging, note
from penstock.cli.terminal.render import Screen
from penstock.core.errors import AlreadyAnswered, InvalidAnswer, PenstockError, QuestionClosed
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.task import Option, QuestionKind, QuestionRecord, QuestionStatus, TaskStatus
from penstock.core.text import one_line
from penstock.engine.answers import answer_in_words
from penstock.store.projections import Page


class Read(Protocol):
    """Shows a prompt and returns the typed line. Raises EOFError at Ctrl-D."""

    def __call__(self, prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        """Return the typed line, which starts with the draft; `complete` serves the Tab key."""
        ...


YES = {"y", "yes", "approve"}
NO = {"n", "no", "reject"}
EDIT = {"e", "edit"}
DECIDE, CANCEL = "/decide", "/cancel"
_WAYS = {DECIDE: "decide", CANCEL: "cancel"}
"""Commands at a fork, in place of an answer: let its agent decide, or end the run."""


def ask(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    """Return the body of an answer. The caller has shown the question.

    Raises EOFError if the person answers later.
    """
    if question["kind"] == QuestionKind.APPROVAL:
        return _approval(question, read)
    ways = [each for each in _WAYS if _is_allowed(question, each)]
    line = read(_prompt(question, ways), complete=answer_completer(question, ways))
    if (way := line.strip().lower()) in ways:
        return {_WAYS[way]: True}
    body = text_answer(question, line)
    if question["kind"] == QuestionKind.USER_MESSAGE and question.get("schema") is not None:
        return body | _payload(read)
    return body


def ask_here(question: Mapping[str, Any], is_over: IsOver = never) -> dict[str, Any] | None:
    """Prompt for the answer to a question; None if the person answers later.

    Raises QuestionClosed once `is_over` returns True.
    """
    try:
        return ask(question, partial(read_line, is_over=is_over))
    except EOFError:
        note("")
        return None


def show_question(question: Mapping[str, Any]) -> None:
    """Show a question on stderr, because programs read stdout."""
    Screen(Console(highlight=False, stderr=True)).question(question)


def show_waiting(waiting: Sequence[QuestionRecord], how: str | None = None) -> None:
    """Show open questions on stderr, and how to answer them: `how`, or `penstock answer`."""
    for record in waiting:
        show_question(question_record(record))
        if how is None:
            note(how_to_answer(record))
    if how is not None:
        note(how)


def text_answer(question: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Parse a line as an answer: the number or name of an option, yes, no, or a text."""
    return answer_in_words(
        text.strip(),
        kind=QuestionKind(question["kind"]),
        options=convert(question.get("options", ()), tuple[Option, ...]),
        form=question.get("form"),
        has_schema=question.get("schema") is not None,
    )


def _prompt(question: Mapping[str, Any], ways: Sequence[str]) -> str:
    """Return the prompt: the default for Enter, and the other ways to answer."""
    form = question.get("form") or {}
    if form.get("type") == "confirm":
        return "[y]es or [n]o> "
    if (default := form.get("defaultValue")) is not None:
        return f"answer [{one_line(clean(default))}]> "
    if question.get("options") and not (form or question.get("schema")):
        return "an option, or a text of your own> "
    return f"answer, or {' or '.join(ways)}> " if ways else "answer> "


def _is_allowed(question: Mapping[str, Any], way: str) -> bool:
    is_fork = question["kind"] == QuestionKind.FORK
    return is_fork and (way != DECIDE or bool((question.get("form") or {}).get("allowDecide")))


def _approval(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    complete = answer_completer(question)
    while True:
        prompt = "[y]es, [n]o, [e]dit its input, Ctrl-D to answer later> "
        word = read(prompt, complete=complete).strip().lower()
        if word in YES:
            return {"decision": "approve"}
        if word in NO:
            reason = read("reason (Enter for none)> ").strip()
            return {"decision": "reject"} | ({"note": reason} if reason else {})
        if word in EDIT:
            arguments = question.get("arguments", {})
            return {"decision": "approve", "input": _edited(read, arguments)}


def _payload(read: Read) -> dict[str, Any]:
    """Prompt for data to send with the text; empty if the person gives none."""
    while line := read("data to send with it, as JSON (Enter for none)> ").strip():
        try:
            return {"resume_payload": parse_json(line)}
        except ValueError as error:
            read(f"not valid JSON: {error}. Press Enter to try again> ")
    return {}


def _edited(read: Read, arguments: Any) -> Any:
    """Return the edited input. An empty line keeps it unchanged."""
    text = compact(arguments)
    while True:
        text = read("input, as JSON> ", draft=text).strip() or text
        try:
            return parse_json(text)
        except ValueError as error:
            read(f"not valid JSON: {error}. Press Enter to try again> ")


Part = Mapping[str, Any]
"""A question as JSON, as in frames and lists."""
Ask = Callable[[Part, IsOver], dict[str, Any] | None]
"""Prompts for an answer and returns its body; None if the person answers later.

Raises QuestionClosed once the question needs no answer any more.
"""


def note_error(error: PenstockError) -> None:
    """Print on stderr why an answer was refused."""
    note(hanging(str(error)))


class Asker:
    """Asks each question once, however often it arrives."""

    def __init__(
        self,
        runtime: Runtime,
        background: Background,
        *,
        ask: Ask = ask_here,
        tell: Callable[[PenstockError], None] = note_error,
    ) -> None:
        self._runtime = runtime
        self._background = background
        self._ask = ask
        self._tell = tell
        self._is_closed: dict[str, bool] = {}
        """By question: whether it was answered, here or elsewhere, or stays open for later."""

    def has_met(self, question_id: str) -> bool:
        """Whether the person was asked already."""
        return question_id in self._is_closed

    def is_closed(self, question_id: str) -> bool:
        """Whether the person was asked and the question is closed."""
        return self._is_closed.get(question_id, False)

    def meet(self, record: QuestionRecord) -> bool:
        """Show a question on stderr and ask it, once; False if it stays open.

        Raises KeyboardInterrupt at Ctrl-C.
        """
        question = question_record(record)
        if not self.has_met(question["id"]):
            show_question(question)
        return self.put(question)

    def put(self, question: Part) -> bool:
        """Ask until an answer is valid or the question is closed elsewhere; False if it stays open.

        The caller has shown the question. Raises KeyboardInterrupt at Ctrl-C.
        """
        question_id = QuestionId(question["id"])
        if question_id in self._is_closed:
            return self._is_closed[question_id]

        def is_over() -> bool:
            find = self._runtime.parts.storage.projections.find_question(question_id)
            record = self._background.do(find)
            return record is None or record.status is not QuestionStatus.OPEN

        if is_over():
            self._is_closed[question_id] = True
            return True
        forget_typed()
        self._is_closed[question_id] = self._is_answered(question, is_over)
        return self._is_closed[question_id]

    def _is_answered(self, question: Part, is_over: IsOver) -> bool:
        while True:
            try:
                with on_interrupt(None):
                    body = self._ask(question, is_over)
                if body is None:
                    return False
                answering = self._runtime.requests.answer(QuestionId(question["id"]), body)
                self._background.do(answering)
            except InvalidAnswer as error:
                self._tell(error)
            except (AlreadyAnswered, QuestionClosed) as error:
                self._tell(error)
                return True
            else:
                return True


POLL_SECONDS = 1.0
_PAGE = Page(limit=100, is_descending=True)
Item = TypeVar("Item")


async def asked_in(runtime: Runtime, runs: Sequence[str]) -> AsyncIterator[QuestionRecord]:
    """Yield the questions of runs that a suspended task waits for; stop once one run has ended."""
    waits = [asyncio.ensure_future(runtime.requests.wait(TaskId(each))) for each in runs]
    try:
        for wait in asyncio.as_completed(waits):
            reply = await wait
            if reply is None or reply.status is not TaskStatus.SUSPENDED:
                return
            for question in reply.questions:
                yield question
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def asked_below(
    runtime: Runtime, task_id: TaskId, poll_seconds: float = POLL_SECONDS
) -> AsyncIterator[QuestionRecord]:
    """Yield each new question of the runs below a task, once. Never ends by itself."""
    briefs: dict[LogId, FlowRequested | None] = {}
    seen: set[str] = set()
    while True:
        records, _ = await runtime.parts.storage.projections.questions(
            status=QuestionStatus.OPEN, page=_PAGE
        )
        for record in reversed(records):
            if record.question.question_id not in seen:
                seen.add(record.question.question_id)
                if await _is_below(runtime.parts.storage, record.log_id, task_id, briefs):
                    yield record
        await runtime.parts.world.clock.sleep(poll_seconds)


async def with_questions(
    items: AsyncIterator[Item], questions: AsyncIterator[QuestionRecord]
) -> AsyncIterator[Item | QuestionRecord]:
    """Yield items and questions as they arrive, until the items end."""
    queue: asyncio.Queue[tuple[Item | QuestionRecord] | None] = asyncio.Queue()

    async def pass_items() -> None:
        try:
            async for item in items:
                queue.put_nowait((item,))
        finally:
            queue.put_nowait(None)

    async def pass_questions() -> None:
        async for question in questions:
            queue.put_nowait((question,))

    passing, asking = (asyncio.ensure_future(each()) for each in (pass_items, pass_questions))
    try:
        while (entry := await queue.get()) is not None:
            yield entry[0]
        await passing  # raises the error of the items, if there was one
    finally:
        passing.cancel()
        asking.cancel()
        await asyncio.gather(passing, asking, return_exceptions=True)


async def _is_below(
    storage: Storage, log_id: LogId, task_id: TaskId, briefs: dict[LogId, FlowRequested | None]
) -> bool:
    """Whether a log is a run that the task waits for, directly or through other runs."""
    run: LogId | None = log_id
    while run is not None:
        # The first event of a log never changes, so it is read once for all polls.
        if run not in briefs:
            records = await storage.log.read(run, limit=1)
            first = records[0].event if records else None
            briefs[run] = first if isinstance(first, FlowRequested) else None
        brief = briefs[run]
        if brief is not None and brief.waiter == task_id:
            return True
        run = None if brief is None else brief.waiter_log
    return False
