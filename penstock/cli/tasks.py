"""Tasks: list, show, follow or cancel them."""

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.recorded.task_records import records_of
from penstock.chat.task_waiter import awaited_runs
from penstock.chat.wire_forms import event_part, quarantine_part, question_record, task_part
from penstock.cli.completion import tasks
from penstock.cli.interaction.loop_thread import ending
from penstock.cli.options import Most, ProjectFolder
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.output import AsJson, compact, note, pretty, print_json, say
from penstock.cli.terminal.render import event_line, print_table, when
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.events import CallRequested, Record, TaskBlocked, TaskEnded, TaskSuspended
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import SessionId, TaskId
from penstock.core.task import TaskRecord, TaskStatus, blocked
from penstock.core.text import cut, one_line
from penstock.store.projections import Page

_TITLE = 60
"""Characters of a title."""
TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's id, such as task_….", autocompletion=tasks)
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the task ends.")]


def list_tasks(*, limit: Most = 20, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List tasks, newest first."""

    async def work(runtime: Runtime) -> None:
        records, total = await runtime.parts.storage.projections.tasks(page=Page(limit=limit))
        if as_json:
            print_json({"tasks": [task_part(each) for each in records], "total": total})
            return
        rows = [
            (
                *_columns(record),
                when(record.created_at),
                await _title(runtime.parts.storage, record),
            )
            for record in records
        ]
        print_table(("task", "status", "kind", "agent", "created", "title"), rows)
        for record in records:
            if record.blocked_on:
                note(f"{record.task_id}: {blocked(record.blocked_on)}: penstock tasks cancel TASK")
        note(f"{len(records)} of {total}")

    run_with_runtime(project, work)


def _columns(task: TaskRecord) -> tuple[str, ...]:
    return task.task_id, task.status, task.kind, task.agent


async def _title(storage: Storage, task: TaskRecord) -> str:
    """Return the title of a task's conversation, or the request of a run or a call.

    A corrupt log has an empty title; `penstock doctor` reports it.
    """
    session = await storage.projections.find_session(SessionId(task.log_id))
    if session is not None:
        return cut(one_line(session.title or ""), _TITLE)
    try:
        records = await storage.log.read(task.log_id, after=task.first_seq - 1, limit=1)
    except StoreCorrupt:
        return ""
    match [each.event for each in records]:
        case [FlowRequested(command=command, task=text, inputs=inputs)]:
            words = [f"/{command}", text, compact(inputs) if inputs else None]
        case [CallRequested(tool_id=tool_id, input=arguments)]:
            words = [tool_id, compact(arguments) if arguments else None]
        case _:
            return ""
    return cut(one_line(" ".join(filter(None, words))), _TITLE)


def show_task(task: TaskName, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Show a task, its outcome, and the questions and runs that it waits for."""

    async def work(runtime: Runtime) -> None:
        record = await _get(runtime.parts.storage, task)
        asked = await runtime.parts.storage.projections.open_questions(
            record.log_id, record.task_id
        )
        questions = [question_record(each) for each in asked]
        happened = [each.event async for each in _events(runtime, record, go_on=False)]
        waits = {"questions": questions, "runs": awaited_runs(happened)}
        whole = task_part(record) | {"outcome": record.outcome} | waits
        for suspect in await runtime.parts.storage.log.suspects():
            if suspect.log_id == record.log_id and not record.status.is_final:
                whole["quarantine"] = quarantine_part(suspect)
        if as_json:
            print_json(whole)
        else:
            say(pretty(whole))
            if record.blocked_on:
                note(f"{blocked(record.blocked_on)}: penstock tasks cancel {record.task_id}")

    run_with_runtime(project, work)


def task_events(
    task: TaskName,
    *,
    go_on: Follow = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Print the events of a task, one per line. With --follow, also resume an unfinished task."""

    async def work(runtime: Runtime) -> None:
        record = await _get(runtime.parts.storage, task)
        async for event_record in _events(runtime, record, go_on=go_on):
            if as_json:
                print_json(event_part(event_record))
            else:
                say(event_line(event_record))

    run_with_runtime(project, work)


def cancel_task(task: TaskName, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Cancel a task."""

    async def work(runtime: Runtime) -> None:
        await _get(runtime.parts.storage, task)
        record = await runtime.requests.cancel(TaskId(task))
        if as_json:
            print_json(task_part(record))
        else:
            say(ending(record, record.status.value))

    run_with_runtime(project, work)


COMMANDS = {
    "list": list_tasks,
    "show": show_task,
    "events": task_events,
    "cancel": cancel_task,
}


async def _events(runtime: Runtime, record: TaskRecord, *, go_on: bool) -> AsyncIterator[Record]:
    parts, after = runtime.parts, record.first_seq - 1
    if not go_on:
        for event_record in await records_of(parts.storage.log, record):
            yield event_record
        return
    parts.engine.launcher.wake(record.log_id)
    source = LogSource(log=parts.storage.log, bus=parts.engine.bus, limits=parts.world.limits)
    items = follow(source, record.log_id, after=after, task_id=record.task_id)
    async for item in items:
        if isinstance(item, Record):
            yield item
            if isinstance(item.event, TaskEnded) or await _rests_since(runtime, item):
                return


async def _rests_since(runtime: Runtime, record: Record) -> bool:
    """Whether a task waits for a person, and this event is its last one.

    A task that another process left blocked may resume in this process, so it gets one sweep's
    time to try.
    """
    if isinstance(record.event, TaskBlocked) and record.task_id is not None:
        seconds = runtime.parts.world.limits.sweep_seconds
        reply = await runtime.requests.wait(record.task_id, seconds=seconds)
        return reply is not None and reply.status is TaskStatus.BLOCKED
    if not isinstance(record.event, TaskSuspended):
        return False
    later = await runtime.parts.storage.log.read(record.log_id, after=record.seq)
    return all(each.task_id != record.task_id for each in later)


async def _get(storage: Storage, task: str) -> TaskRecord:
    record = await storage.projections.find_task(TaskId(task))
    if record is None:
        raise NotFound(f"There is no task {task!r}; `penstock tasks list` shows all tasks.")
    return record
