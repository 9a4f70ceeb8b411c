"""Lists open questions and answers one."""

from typing import Annotated, Any

import typer
from msgspec import Struct

from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.chat.requests import TaskReply
from penstock.chat.wire_forms import question_record
from penstock.cli.completion import questions, replies
from penstock.cli.interaction.asking import (
    EDIT,
    NO,
    YES,
    ask_here,
    note_error,
    show_question,
    show_waiting,
    text_answer,
)
from penstock.cli.options import ProjectFolder, read_value, taking
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, OF_TASKS
from penstock.cli.terminal.keyboard import forget_typed
from penstock.cli.terminal.output import AsJson, compact, note, print_json, say
from penstock.cli.terminal.render import envelope_text, print_table, width
from penstock.core.errors import InvalidAnswer, NotFound
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, QuestionId
from penstock.core.task import QuestionKind, QuestionRecord, QuestionStatus, blocked
from penstock.core.text import cut, one_line
from penstock.store.projections import Page

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION",
        help="The question's id. Without it, all open questions are listed.",
        autocompletion=questions,
    ),
]
What = Annotated[
    str | None,
    typer.Argument(
        metavar="ANSWER",
        help="approve, reject, an option, or a text. Without it you are prompted.",
        autocompletion=replies,
    ),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="JSON",
        help="With approve: the input to run instead. For a question of a tool: data sent with "
        "the text. JSON, @FILE, or - for stdin.",
    ),
]
Note = Annotated[
    str | None,
    typer.Option(
        "--note", metavar="TEXT", help="The reason; at a fork, a note for the steps that follow."
    ),
]
Decide = Annotated[
    bool, typer.Option("--decide", help="At a fork: let the agent named in the step decide.")
]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="Cancel the question; at a fork, this ends the run.")
]

_MIN_INPUT = 40
_WAITER_SECONDS = 60
"""How long to wait for a task that waited for the answered run; another process may run it."""
_MAX_SHOWN = 300


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock answer`."""

    question: Which = None
    what: What = None
    edited: Input = None
    reason: Note = None
    decide: Decide = False
    cancel: Cancel = False
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(Options)
def answer(options: Options) -> None:
    """List open questions, or answer one and show the outcome of its task."""

    async def work(runtime: Runtime) -> int:
        if options.question is None:
            await _list(runtime.parts.storage, as_json=options.as_json)
            return 0
        record = await _get(runtime.parts.storage, options.question)
        taken = await _answered(runtime, record, options)
        reply = await runtime.requests.wait(taken.task_id)
        code = _show(taken, reply, as_json=options.as_json)
        await (
            runtime.parts.engine.launcher.rest()
        )  # lets a chat that waited for this run continue here
        if reply is not None and reply.status.is_final:
            await _notify_waiters(runtime, taken.log_id)
        return code

    raise typer.Exit(run_with_runtime(options.project, work))


async def _list(storage: Storage, *, as_json: bool) -> None:
    records, total = await storage.projections.questions(
        status=QuestionStatus.OPEN, page=Page(limit=200)
    )
    if as_json:
        print_json({"questions": [question_record(each) for each in records], "total": total})
        return
    print_table(("question", "kind", "for", "agent", "input", "text"), map(_row, records))
    if records:
        note("To answer one: penstock answer QUESTION approve|reject|OPTION|TEXT")
    else:
        note("no open questions")


def _row(record: QuestionRecord) -> tuple[str | None, ...]:
    """Return the row of a question. Approvals show the input, which tells equal texts apart."""
    question = record.question
    input_text = None
    if question.kind is QuestionKind.APPROVAL:
        input_text = f"{question.tool_id} {compact(dict(question.input or {}))}"
        # at most a third: the text column needs the rest
        input_text = cut(input_text, max(_MIN_INPUT, width() // 3))
    return (
        question.question_id,
        question.kind,
        record.log_id,
        record.agent,
        input_text,
        question.text,
    )


async def _get(storage: Storage, question: str) -> QuestionRecord:
    record = await storage.projections.find_question(QuestionId(question))
    if record is None:
        raise NotFound(f"There is no question {question!r}; `penstock answer` lists the open ones.")
    return record


async def _answered(runtime: Runtime, record: QuestionRecord, options: Options) -> QuestionRecord:
    """Send the answer from the command line; without one, prompt until an answer is valid."""
    answer_body = _given_answer(record, options)
    question = question_record(record)
    if answer_body is None:
        forget_typed()
        show_question(question)
    while True:
        if (body := answer_body if answer_body is not None else ask_here(question)) is None:
            raise typer.Abort
        body |= _extras(record, options.edited, options.reason)
        try:
            return await runtime.requests.answer(record.question.question_id, body)
        except InvalidAnswer as error:
            if answer_body is not None:
                raise
            note_error(error)


def _given_answer(record: QuestionRecord, options: Options) -> dict[str, Any] | None:
    """Return the answer from the command line; None if there is none."""
    what, ways = options.what, {"decide": options.decide, "cancel": options.cancel}
    chosen = [name for name, is_wanted in ways.items() if is_wanted]
    if len(chosen) + (what is not None) > 1:
        raise typer.BadParameter("give one of ANSWER, --decide and --cancel, not several")
    if chosen and options.reason is not None:
        raise typer.BadParameter("--note needs an ANSWER")
    if chosen:
        return {chosen[0]: True}
    if what is None:
        return None
    if record.question.kind is not QuestionKind.APPROVAL:
        return text_answer(question_record(record), what)
    word = what.strip().lower()
    if word in EDIT and options.edited is None:
        raise typer.BadParameter("edit needs the input to run instead: --input JSON")
    if word in YES | EDIT:
        return {"decision": "approve"}
    if word in NO:
        return {"decision": "reject"}
    issue = f"must be approve or reject, found {what!r}"
    raise InvalidAnswer([{"field": "/decision", "issue": issue}])


def _extras(record: QuestionRecord, edited: str | None, reason: str | None) -> dict[str, Any]:
    is_approval = record.question.kind is QuestionKind.APPROVAL
    extras: dict[str, Any] = {}
    if reason is not None:
        extras["note" if is_approval else "notes"] = reason
    if edited is not None:
        is_message = record.question.kind is QuestionKind.USER_MESSAGE
        extras["resume_payload" if is_message else "input"] = read_value(edited, "--input")
    return extras


async def _notify_waiters(runtime: Runtime, run: LogId) -> None:
    """Report the task that waited for a run that ended, then the task that waited for that one."""
    records = await runtime.parts.storage.log.read(run, limit=1)
    brief = records[0].event if records else None
    if not isinstance(brief, FlowRequested) or brief.waiter is None:
        return
    try:
        reply = await runtime.requests.wait(brief.waiter, seconds=_WAITER_SECONDS)
    except NotFound:
        return
    note(f"{brief.waiter} waited for it: {_status_line(reply)}")
    if reply is not None and reply.status.is_final:
        await _notify_waiters(runtime, LogId(brief.waiter))


def _status_line(reply: TaskReply | None) -> str:
    if reply is None:
        return "it is still running"
    text = reply.error.message if reply.error is not None else reply.content
    return f"{reply.status.value} {cut(one_line(text), _MAX_SHOWN)}".rstrip()


def _show(taken: QuestionRecord, reply: TaskReply | None, *, as_json: bool) -> int:
    if reply is None:
        return 0
    waiting = [each.question.question_id for each in reply.questions]
    envelope = reply.envelope
    if as_json:
        outcome = envelope.to_wire() if envelope else reply.content
        status = reply.status.value
        print_json(
            {
                "question": question_record(taken),
                "status": status,
                "result": outcome,
                "waiting": waiting,
            }
        )
    elif reply.blocked_on:
        say(blocked(reply.blocked_on))
    elif envelope is not None:
        say(envelope_text(envelope))
    elif reply.error is not None:
        say(f"{reply.error.code}: {reply.error.message}")
    else:
        say(reply.content)
    show_waiting(reply.questions)
    return OF_TASKS.get(reply.status, FAILED)
