"""Tasks: list, show, follow, cancel or retry them, and show the trees that they form."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import typer
from msgspec import Struct

from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.chat.children.tree import Node, tree_of
from penstock.chat.log_follower import LogSource, follow
from penstock.chat.recorded.task_records import records_of
from penstock.chat.task_waiter import awaited_runs
from penstock.chat.wire_forms import event_part, quarantine_part, question_record, task_part
from penstock.cli.completion import tasks
from penstock.cli.interaction.asking import show_waiting
from penstock.cli.interaction.loop_thread import ending
from penstock.cli.options import Most, ProjectFolder, taking
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, OF_TASKS
from penstock.cli.terminal.output import AsJson, compact, note, pretty, print_json, say
from penstock.cli.terminal.render import event_line, print_table, when
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.events import CallRequested, Record, TaskBlocked, TaskEnded, TaskSuspended
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.roles import waits_for_tasks
from penstock.core.ids import SessionId, TaskId
from penstock.core.task import TaskRecord, TaskStatus, blocked, is_lacking
from penstock.core.text import cut, one_line
from penstock.store.projections import NO_PARENT, Page, TasksOf

_TITLE = 60
"""Characters of a title."""
TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's id, such as task_….", autocompletion=tasks)
]
InStatus = Annotated[
    list[TaskStatus] | None,
    typer.Option("--status", help="Tasks with this status; repeatable."),
]
_WATCH_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[2J"
"""Clears the screen of a terminal."""
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the task ends.")]


class ListOptions(Struct, kw_only=True):
    """The options of `tasks list`."""

    limit: Most = 20
    status: InStatus = None
    kind: Annotated[
        str | None, typer.Option("--kind", help="chat, call, flow or child.", metavar="KIND")
    ] = None
    agent: Annotated[str | None, typer.Option("--agent", help="Tasks of this agent.")] = None
    parent: Annotated[
        str | None,
        typer.Option("--parent", metavar="TASK", help="Children of this task; none for the rest."),
    ] = None
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the list again every two seconds.")
    ] = False
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(ListOptions)
def list_tasks(options: ListOptions) -> None:
    """List tasks, newest first."""

    async def work(runtime: Runtime) -> None:
        await _list(runtime, options)
        while options.watch:
            await runtime.parts.world.clock.sleep(_WATCH_SECONDS)
            say(_CLEAR if sys.stdout.isatty() else "")
            await _list(runtime, options)

    run_with_runtime(options.project, work)


async def _list(runtime: Runtime, options: ListOptions) -> None:
    """Print the list once."""
    storage = runtime.parts.storage
    kind = {"chat": "message", "direct": "call"}.get(options.kind or "", options.kind)
    parent = NO_PARENT if options.parent == "none" else options.parent
    of = TasksOf(
        kind=kind,
        agent=options.agent,
        statuses=tuple(options.status or ()),
        parent_id=None if parent is None else TaskId(parent),
    )
    records, total = await storage.projections.tasks(of=of, page=Page(limit=options.limit))
    if options.as_json:
        print_json({"tasks": [task_part(each) for each in records], "total": total})
        return
    rows = [
        (*_columns(record), when(record.created_at), await _title(storage, record))
        for record in records
    ]
    print_table(("task", "status", "kind", "agent", "created", "title"), rows)
    for record in records:
        if is_lacking(record.blocked_on):
            note(f"{record.task_id}: {blocked(record.blocked_on)}: penstock tasks cancel TASK")
    note(f"{len(records)} of {total}")


def _columns(task: TaskRecord) -> tuple[str, ...]:
    return task.task_id, task.status, task.kind, task.agent


async def _title(storage: Storage, task: TaskRecord) -> str:
    """Return the title of a task or its conversation, or the request of a run or a call.

    A corrupt log has an empty title; `penstock doctor` reports it.
    """
    if task.title:
        return cut(one_line(task.title), _TITLE)
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


def show_task(
    task: TaskName,
    *,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the tasks below it, with their usage.")
    ] = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show a task, its outcome, and the questions and runs that it waits for."""

    async def work(runtime: Runtime) -> None:
        record = await _get(runtime.parts.storage, task)
        if tree:
            await _show_tree(runtime, record, as_json=as_json)
            return
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
            if is_lacking(record.blocked_on):
                note(f"{blocked(record.blocked_on)}: penstock tasks cancel {record.task_id}")

    run_with_runtime(project, work)


async def _show_tree(runtime: Runtime, record: TaskRecord, *, as_json: bool) -> None:
    """Print a task and the tasks below it."""
    storage = runtime.parts.storage
    tree = await tree_of(storage.log, storage.projections, record)
    if as_json:
        print_json(tree.to_wire())
        return
    rows = [*_branches(tree.root, 0)]
    print_table(("task", "status", "tokens", "calls", "title"), rows)
    if tree.is_truncated:
        note("more tasks exist: the tree is cut")


def _branches(node: Node, level: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each task of a tree; those below a task are indented."""
    usage, indent = node.total, "  " * level
    tokens = usage.input_tokens + usage.output_tokens
    named = node.task.title or node.task.kind
    calls = str(usage.tool_calls)
    yield f"{indent}{node.task.task_id}", node.task.status.value, str(tokens), calls, named
    for child in node.children:
        yield from _branches(child, level + 1)


def follow_task(task: TaskName, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Print the events of a task until it ends. Ctrl-C ends the view, not the task."""
    task_events(task, go_on=True, project=project, as_json=as_json)


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


def retry_task(
    task: TaskName,
    *,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue before the failure; calls are kept.")
    ] = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Start a task again that failed or was cancelled, and wait until it ends or asks.

    Exit codes: 0 success, 1 it failed, too, 4 waiting for a person.
    """

    async def work(runtime: Runtime) -> int:
        await _get(runtime.parts.storage, task)
        made = await runtime.requests.retry(task, resumes=resume)
        reply = await runtime.requests.wait(made.task_id)
        made = await _get(runtime.parts.storage, made.task_id)
        if as_json:
            print_json(task_part(made))
        else:
            say(f"{made.task_id} {made.status.value}")
            if reply is not None and reply.error is not None:
                note(f"Error: {reply.error.message}")
            show_waiting([] if reply is None else reply.questions)
        return OF_TASKS.get(made.status, FAILED)

    raise typer.Exit(run_with_runtime(project, work))


COMMANDS = {
    "list": list_tasks,
    "show": show_task,
    "events": task_events,
    "follow": follow_task,
    "cancel": cancel_task,
    "retry": retry_task,
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
    if not isinstance(record.event, TaskSuspended) or waits_for_tasks(record.event):
        return False
    later = await runtime.parts.storage.log.read(record.log_id, after=record.seq)
    return all(each.task_id != record.task_id for each in later)


async def _get(storage: Storage, task: str) -> TaskRecord:
    record = await storage.projections.find_task(TaskId(task))
    if record is None:
        raise NotFound(f"There is no task {task!r}; `penstock tasks list` shows all tasks.")
    return record
