"""Tab completion in a shell and at prompts, and the words that answer a question.

In a shell: names and ids of tools, agents, sessions, tasks and questions. Each of these functions
runs in a process of its own whenever the person presses Tab. It reads what it needs, opens no
runtime, starts no task, and stays silent: the shell would take any output for a name.

At prompts: commands of a conversation, and answers to a question (`command_completer`,
`answer_completer`).
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import typer

from penstock.agents.agent_folders import load_agents
from penstock.agents.catalog import BUILTIN
from penstock.app.flows import project_flows
from penstock.app.project import load_project
from penstock.app.settings import Settings
from penstock.builtins import TOOLS
from penstock.cli.project import read_settings
from penstock.cli.terminal.keyboard import Complete
from penstock.cli.terminal.output import is_plain, pasted
from penstock.core.errors import PenstockError
from penstock.core.ids import QuestionId
from penstock.core.profile import LOCAL
from penstock.core.task import FLOW, QuestionKind, QuestionRecord, QuestionStatus
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.projections import Page, Projections, TasksOf
from penstock.store.sql_projections import SqlProjections
from penstock.tools.tool import Tool

Value = TypeVar("Value")
_MAX_OFFERED = 50


def direct_tools(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tools that allow direct calls; after a tool, the members of its input."""
    tools = {each.spec.tool_id: each for each in _tools(ctx) if each.spec.direct_call}
    words = [*(ctx.params.get("words") or ()), *ctx.args]
    if not words:
        return _fitting(tools, incomplete)
    chosen = tools.get(words[0])
    members = chosen.spec.input_schema.get("properties", {}) if chosen else {}
    return _fitting((f"{each}=" for each in members), incomplete)


def every_tool(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return every tool, the project's first."""
    return _fitting((each.spec.tool_id for each in (*_tools(ctx), *TOOLS)), incomplete)


def agents(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the agents of the project."""
    loaded = _quietly(lambda: load_agents(read_settings(_folder(ctx)).root).agents)
    return _fitting(sorted({each.name for each in (*loaded, *BUILTIN)}), incomplete)


def tasks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the newest tasks."""

    async def work(projections: Projections) -> list[str]:
        records, _ = await projections.tasks(page=Page(limit=_MAX_OFFERED))
        return [each.task_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def questions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the questions that are open."""

    async def work(projections: Projections) -> list[str]:
        page = Page(limit=_MAX_OFFERED)
        records, _ = await projections.questions(status=QuestionStatus.OPEN, page=page)
        return [each.question.question_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the newest sessions of the local profile."""

    async def work(projections: Projections) -> list[str]:
        records, _ = await projections.sessions(profile_id=LOCAL, page=Page(limit=_MAX_OFFERED))
        return [each.session_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def flows(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the commands of the project's flows."""

    def read() -> Sequence[str]:
        settings = read_settings(_folder(ctx))
        return sorted(project_flows(settings, load_project(settings)).files().files)

    return _fitting(_quietly(read), incomplete)


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the newest runs of flows."""

    async def work(projections: Projections) -> list[str]:
        records, _ = await projections.tasks(of=TasksOf(kind=FLOW), page=Page(limit=_MAX_OFFERED))
        return [each.task_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def skills(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the skills of the project and the built-in ones."""

    def read() -> Sequence[str]:
        return sorted(load_project(read_settings(_folder(ctx))).every_skill)

    return _fitting(_quietly(read), incomplete)


def replies(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the options of the question that the command names."""
    question = ctx.params.get("question")

    async def work(projections: Projections) -> list[str]:
        record = await projections.find_question(QuestionId(question or ""))
        return [] if record is None else [*answers_to(record)]

    answers = [each for each in _stored(ctx, work) if each != ANY_TEXT]
    return _fitting(answers, incomplete)


def _tools(ctx: typer.Context) -> Sequence[Tool]:
    return _quietly(lambda: load_project(read_settings(_folder(ctx))).tools)


def _stored(
    ctx: typer.Context, work: Callable[[Projections], Awaitable[list[str]]]
) -> Sequence[str]:
    """Read from the project's store; empty if it does not exist yet."""

    async def whole(settings: Settings) -> list[str]:
        database = await open_database(settings.database)
        try:
            return await work(SqlProjections(database, open_blobs(settings.blob_place)))
        finally:
            await database.close()

    def read() -> Sequence[str]:
        settings = read_settings(_folder(ctx))
        return asyncio.run(whole(settings)) if settings.data_path.exists() else ()

    return _quietly(read)


def _quietly(read: Callable[[], Sequence[Value]]) -> Sequence[Value]:
    """Read without output: the shell would take stdout for names, and stderr garbles the prompt."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            return read()
        except PenstockError:
            return ()


def _folder(ctx: typer.Context) -> Path | None:
    return ctx.params.get("project")


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [each for each in names if each.startswith(incomplete)]


ANY_TEXT = "TEXT"
"""Placeholder for an answer as free text."""
_MAX_LINES = 6
"""Answers that are listed as commands; the question itself shows all options."""


def how_to_answer(record: QuestionRecord) -> str:
    """Return a command for each answer to a question, quoted for a shell."""
    answers = answers_to(record)
    command = ("penstock", "answer", record.question.question_id)
    lines = [pasted(*command, each) for each in answers[:_MAX_LINES]]
    left = len(answers) - len(lines)
    more = f"\n       or one of {left} more, by name or number" if left else ""
    return "answer it: " + "\n       or: ".join(lines) + more


def answers_to(record: QuestionRecord) -> Sequence[str]:
    """Return the possible answers. An option that is not one printable line has its number."""
    question = record.question
    if question.kind is QuestionKind.APPROVAL:
        return ("approve", "reject")
    if (question.form or {}).get("type") == "confirm":
        return ("yes", "no")
    values = [each.value for each in question.options]
    return [_as_word(number, each) for number, each in enumerate(values, 1)] or (ANY_TEXT,)


def _as_word(number: int, value: str) -> str:
    """Return an option's value, or its number if the value cannot be an argument."""
    return value if is_plain(value) and not value.startswith("-") else str(number)


Words = Mapping[str, Callable[[], Iterable[str]]]
"""By command, such as `/call`: a function that returns the words that may follow it."""


def command_completer(words: Words) -> Complete:
    """Complete a command, or the word after it."""

    def complete(line: str) -> Sequence[str]:
        command, space, rest = line.partition(" ")
        if not line.startswith("/") or " " in rest:
            return ()
        if not space:
            return _beginning(line, (f"{each} " for each in sorted(words)))
        known = sorted(words.get(command, tuple)())
        return _beginning(line, (f"{command} {each} " for each in known))

    return complete


def answer_completer(question: Mapping[str, Any], ways: Sequence[str] = ()) -> Complete:
    """Complete an answer: yes or no, an option, or one of the other ways to answer.

    Labels of options come first, because the question shows them, then their values. An option that
    is not one printable line is left out; its number is also an answer.
    """
    form = question.get("form") or {}
    if question["kind"] == QuestionKind.APPROVAL:
        return lambda line: _beginning(line, ("yes", "no", "edit"))
    if form.get("type") == "confirm":
        return lambda line: _beginning(line, ("yes", "no"))
    options = question.get("options", ())
    labels, values = (
        [each[name] for each in options if is_plain(each[name])] for name in ("label", "value")
    )

    def complete(line: str) -> Sequence[str]:
        before, last = _split(line) if form.get("multiSelect") else ("", line)
        matches = _beginning(last, labels) or _beginning(last, values)
        return [f"{before}{each}" for each in matches] + _beginning(line, ways)

    return complete


def _split(line: str) -> tuple[str, str]:
    """Split a list of options into the complete ones and the last, partial one."""
    last = line.rpartition(",")[2].lstrip()
    return line[: len(line) - len(last)], last


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    """Return the words that start like this, ignoring case."""
    return [each for each in words if each.lower().startswith(start.lower())]
