"""Shell completion of names and ids: tools, agents, sessions, tasks, questions.

Each function runs in a process of its own whenever the person presses Tab. It reads what it needs,
opens no runtime, starts no task, and stays silent: the shell would take any output for a name.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TypeVar

import typer

from penstock.agents.catalog import BUILTIN
from penstock.agents.folders import load_agents
from penstock.app.flows import project_flows
from penstock.app.project import load_project
from penstock.app.settings import Settings
from penstock.builtins import TOOLS
from penstock.cli.interaction.words import ANY_TEXT, answers_to
from penstock.cli.project import read_settings
from penstock.core.errors import PenstockError
from penstock.core.ids import QuestionId
from penstock.core.profile import LOCAL
from penstock.core.task import FLOW, QuestionStatus
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.projections import Page, Projections, TasksOf
from penstock.store.sql_projections import SqlProjections
from penstock.tools.tool import Tool

Value = TypeVar("Value")
_MOST = 50


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
        records, _ = await projections.tasks(page=Page(limit=_MOST))
        return [each.task_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def questions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the questions that are open."""

    async def work(projections: Projections) -> list[str]:
        page = Page(limit=_MOST)
        records, _ = await projections.questions(status=QuestionStatus.OPEN, page=page)
        return [each.question.question_id for each in records]

    return _fitting(_stored(ctx, work), incomplete)


def sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the newest sessions of the local profile."""

    async def work(projections: Projections) -> list[str]:
        records, _ = await projections.sessions(profile_id=LOCAL, page=Page(limit=_MOST))
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
        records, _ = await projections.tasks(of=TasksOf(kind=FLOW), page=Page(limit=_MOST))
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
