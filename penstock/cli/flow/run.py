"""Runs a flow, shows its steps at the terminal, and puts its questions to the person.

The run itself is durable and does not depend on this process. The main thread waits for the person
and for items of one feed: events of the run, and questions of nested runs, which are not in its
log. A question is asked while other steps still work; the board is removed meanwhile, because a
prompt and a redrawn region cannot share the screen. Ctrl-C offers to abort the run; a run that does
not end within `limits.shutdown_seconds`, or a second Ctrl-C, exits the process.

Proof: tests/cli/flow/test_run.py, tests/journeys/test_terminal.py.
"""

import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct
from rich.console import Console

from penstock.agents.agent_profile import DisplayCard
from penstock.app.runtime import Runtime, outcome_of
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.requests import BLOCKED, NewRun, TaskReply
from penstock.cli.completion import flows
from penstock.cli.flow.board import TICK_SECONDS, RunBoard, board_for
from penstock.cli.interaction.asking import (
    YES,
    Asker,
    asked_below,
    asked_in,
    show_waiting,
    with_questions,
)
from penstock.cli.interaction.loop_thread import Background, Feed, TaskStopper, on_interrupt
from penstock.cli.options import ProjectFolder, taking
from penstock.cli.project import opened
from penstock.cli.terminal.exit_codes import (
    FAILED,
    FINE,
    INTERRUPTED,
    INVALID_INPUT,
    WAITING,
    WRONG_USAGE,
)
from penstock.cli.terminal.keyboard import read_line
from penstock.cli.terminal.output import AsJson, hanging, note, print_json, say
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import NotFound
from penstock.core.events.events import (
    Event,
    QuestionAsked,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskSuspended,
)
from penstock.core.events.flow_events import ValueType
from penstock.core.events.roles import waits_for_tasks
from penstock.core.ids import LogId, QuestionId, TaskId, new_id
from penstock.core.json_values.json_text import parse_json
from penstock.core.task import QuestionRecord, QuestionStatus, TaskStatus
from penstock.engine.bus import Live
from penstock.engine.slash_commands import MissingArgument
from penstock.flows.definition import RunInput
from penstock.flows.parsing import TASK, flow_of
from penstock.flows.starting import TASK_REQUIRED, wanted_of

FlowName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The flow's command, such as dom:apply.", autocompletion=flows
    ),
]
Item = TypeVar("Item")
ABORT = "Abort this run? [y]es, Enter continues> "


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of `penstock flow run`."""

    name: FlowName
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="The task, as a text.")] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="KEY=VALUE", help="A typed input; repeatable."),
    ] = None
    auto: Annotated[
        bool | None,
        typer.Option(
            "--auto/--ask",
            help="Let agents decide instead of asking, or ask a person. Overrides the settings.",
        ),
    ] = None
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="Do not prompt: print the run's id, and exit as soon as it waits for a person.",
        ),
    ] = False
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(RunOptions)
def start(options: RunOptions) -> None:
    """Run a flow and show its steps. You are prompted for its questions.

    Ctrl-C offers to abort the run. Exit codes: 0 success, 1 error or aborted, 2 unknown flow or
    missing task, 3 rejected, 4 waiting for a person.
    """
    texts = read_pairs(options.inputs or [])
    context: AbstractAsyncContextManager[Runtime] = opened(options.project)
    with Background() as background:
        runtime = background.enter(context)
        try:
            code = _WatchedRun(runtime, background, options).through(texts)
        except NotFound as error:
            note(f"Error: {error}")
            code = WRONG_USAGE
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            background.leave(context)
    raise typer.Exit(code)


def code_of(envelope: Envelope) -> int:
    """Return the exit code for the outcome of a run."""
    if envelope.ok:
        return FINE
    if envelope.status is Status.SUSPENDED:
        return WAITING
    code = envelope.error.code if envelope.error else ""
    if code in {NotFound.code, TASK_REQUIRED}:
        return WRONG_USAGE
    is_rejected = (envelope.output or {}).get("status") == "rejected"
    return INVALID_INPUT if is_rejected else FAILED


class _WatchedRun:
    """A run, its display, and the person who answers its questions."""

    def __init__(self, runtime: Runtime, background: Background, options: RunOptions) -> None:
        self._runtime = runtime
        self._background = background
        self._options = options
        self._command = options.name.removeprefix("/")
        self._board = _board(runtime, options)
        self._is_asking = sys.stdin.isatty() and not (options.as_json or options.detach)
        self._task_id = TaskId(new_id("task"))
        self._shown = 0
        self._stopping: TaskStopper | None = None
        self._asker = Asker(runtime, background)

    def through(self, texts: Mapping[str, str]) -> int:
        """Start the run, show it until it ends or waits, print its result; return the exit code."""
        task, inputs = self._given(texts)
        asked = NewRun(
            command=self._command, task=task, inputs=inputs, autonomous=self._options.auto
        )
        self._background.do(self._runtime.start_flow(asked, task_id=self._task_id))
        is_json, is_detached = self._options.as_json, self._options.detach
        if is_detached and not is_json:
            say(self._task_id)
        envelope = outcome_of(self._end())
        if is_json or not is_detached:
            _print_result(envelope, as_json=is_json)
        return code_of(envelope)

    def _given(self, texts: Mapping[str, str]) -> tuple[str | None, dict[str, Any]]:
        """Return the task and the inputs of the run. Prompts for missing ones."""
        source = self._runtime.parts.flows.work.library.find(self._command)
        flow, task = flow_of(source.text, source.path), self._options.task
        inputs = values_of(texts, flow.inputs if flow is not None else ())
        if not self._is_asking:
            return task, inputs
        known = {*inputs} if task is None else {*inputs, TASK}
        typed = asked_for(wanted_of(source, self._command), known)
        return typed.pop(TASK, task), inputs | typed

    def _end(self) -> TaskReply:
        """Show the run and ask its questions until it ends or a question stays open."""
        while True:
            self._show()
            reply = self._background.do(self._runtime.requests.wait(self._task_id))
            assert reply is not None  # noqa: S101  it waits as long as it takes
            if reply.status is not TaskStatus.SUSPENDED or not self._answer(reply):
                return reply

    def _show(self) -> None:
        """Show events until the run ends or waits."""
        items: AsyncIterator[Live | QuestionRecord] = self._items()
        if self._is_asking:
            items = with_questions(items, asked_below(self._runtime, self._task_id))
        feed = self._background.feed(items)
        try:
            with on_interrupt(feed.interrupt), self._board:
                while (item := self._next(feed)) is not None:
                    if self._take(item):
                        return
        finally:
            feed.close()

    def _take(self, item: Live | QuestionRecord) -> bool:
        """Show one item; return whether the run has ended or waits."""
        if isinstance(item, QuestionRecord):
            self._ask_at_once(item)
            return False
        self._board.take(item)
        if not isinstance(item, Record):
            return False
        self._shown = item.seq
        if isinstance(item.event, QuestionAsked) and self._is_asking:
            finding = self._found(item.event.question.question_id)
            if (record := self._background.do(finding)) is not None:
                self._ask_at_once(record)
        return self._stops(item.event)

    def _stops(self, event: Event) -> bool:
        """Whether the run has ended, or waits for a question that is still open."""
        if waits_for_tasks(event):
            return False
        if isinstance(event, TaskSuspended):
            return not any(map(self._asker.is_closed, event.questions))
        return isinstance(event, TaskEnded | TaskBlocked)

    def _ask_at_once(self, record: QuestionRecord) -> None:
        """Ask a question while other steps work. The board is removed meanwhile."""
        is_new = not self._asker.has_met(record.question.question_id)
        if self._stopping is None and is_new and record.status is QuestionStatus.OPEN:
            with self._board.aside():
                if not self._ask(record):
                    note("The other steps continue; the question stays open.")

    async def _found(self, question_id: QuestionId) -> QuestionRecord | None:
        return await self._runtime.parts.storage.projections.find_question(question_id)

    def _next(self, feed: Feed[Item]) -> Item | None:
        while True:
            try:
                return self._taken(feed)
            except (KeyboardInterrupt, TimeoutError):
                with self._board.aside():
                    if self._stopping is not None:
                        self._stopping.leave()
                    if self._wants_abort():
                        self._abort()

    def _taken(self, feed: Feed[Item]) -> Item | None:
        """Wait for the next item. Raises TimeoutError if an aborted run takes too long to end."""
        clock = self._runtime.parts.world.clock
        until = clock.monotonic() + self._stopping.seconds if self._stopping else None
        while True:
            try:
                return feed.take(TICK_SECONDS)
            except TimeoutError:
                if until is not None and clock.monotonic() >= until:
                    raise
                self._board.tick()

    async def _items(self) -> AsyncIterator[Live]:
        parts = self._runtime.parts
        source = LogSource(log=parts.storage.log, bus=parts.engine.bus, limits=parts.world.limits)
        log_id, after = LogId(self._task_id), self._shown
        async for item in follow(source, log_id, after=after, task_id=self._task_id):
            yield item

    def _wants_abort(self) -> bool:
        """Ask whether to abort the run after Ctrl-C. Without a person, abort."""
        if not self._is_asking:
            return True
        try:
            with on_interrupt(None):
                return read_line(ABORT).strip().lower() in YES
        except (EOFError, KeyboardInterrupt):
            return True

    def _abort(self) -> None:
        self._stopping = TaskStopper(self._runtime, self._background, self._task_id)

    def _answer(self, reply: TaskReply) -> bool:
        """Ask open questions until the run continues; False if one stays open.

        A question may belong to a nested run. Then the next questions of nested runs follow, until
        one of those runs has ended and this run continues.
        """
        asked, is_taken = next(filter(self._is_wanted, reply.questions), None), False
        while asked is not None and (is_taken := self._ask(asked)):
            is_own = asked.task_id == self._task_id or self._stopping is not None
            asked = None if is_own else self._next_in(reply)
        if not is_taken:
            show_waiting(reply.questions)
        return is_taken

    def _next_in(self, reply: TaskReply) -> QuestionRecord | None:
        """Return the next question of nested runs; if there is none, one that was postponed."""
        feed = self._background.feed(asked_in(self._runtime, reply.runs))
        postponed: QuestionRecord | None = None
        try:
            with on_interrupt(feed.interrupt):
                while (record := self._next(feed)) is not None:
                    if self._is_wanted(record):
                        return record
                    postponed = record
        finally:
            feed.close()
        return postponed

    def _is_wanted(self, record: QuestionRecord) -> bool:
        """Whether the person has not postponed this question."""
        question_id = record.question.question_id
        return self._asker.is_closed(question_id) or not self._asker.has_met(question_id)

    def _ask(self, asked: QuestionRecord) -> bool:
        """Ask a question until it is answered or the run is aborted; False if it stays open."""
        while self._is_asking and self._stopping is None:
            try:
                return self._asker.meet(asked)
            except KeyboardInterrupt:
                if self._wants_abort():
                    self._abort()
        return self._stopping is not None


def _board(runtime: Runtime, options: RunOptions) -> RunBoard:
    """Return the display of the run. It uses stderr, because stdout has only the result."""
    parts = runtime.parts

    def card_of(name: str) -> DisplayCard:
        agent = parts.chat.agents.find_in_files(name)
        return agent.profile.card if agent is not None else DisplayCard()

    console = Console(highlight=False, stderr=True, quiet=options.as_json)
    title = f"/{options.name.removeprefix('/')}"
    return board_for(console, parts.world.clock, title=title, card_of=card_of)


def _print_result(envelope: Envelope, *, as_json: bool) -> None:
    if as_json:
        print_json(envelope.output if envelope.output is not None else envelope.to_wire())
        return
    if envelope.status is Status.SUSPENDED:
        if envelope.error is not None and envelope.error.code == BLOCKED:
            note(envelope.error.message)
        return
    result = envelope.output or {}
    error = envelope.error.message if envelope.error else ""
    last = result.get("lastResult") or {}
    say(str(result.get("reason") or error or last.get("summary") or ""))


def read_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the texts of KEY=VALUE pairs. Raises BadParameter for a malformed pair."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"an input has the form KEY=VALUE, found {pair!r}")
        texts[key] = text
    return texts


def values_of(texts: Mapping[str, str], declared: Sequence[RunInput]) -> dict[str, Any]:
    """Parse texts as JSON. A text that is not JSON, or whose input is a string, stays a text."""
    texts_wanted = {each.name for each in declared if each.value_type is ValueType.STRING}
    return {name: _value(text, is_text=name in texts_wanted) for name, text in texts.items()}


def asked_for(missing: Mapping[str, MissingArgument], known: Collection[str]) -> dict[str, Any]:
    """Prompt for each wanted input that was not given. A blank line omits it."""
    typed: dict[str, Any] = {}
    for name in [each for each in missing if each not in known]:
        try:
            text = read_line(f"{hanging(missing[name].question)}> ").strip()
        except EOFError:
            break
        if text:
            typed[name] = missing[name].value_of(text)
    return typed


def _value(text: str, *, is_text: bool) -> Any:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return text if is_text and not isinstance(value, str) else value
