"""The commands of `penstock schedules`: list, show, run, pause and resume them; due times."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import Schedule, ScheduleStatus
from penstock.chat.schedules.rows import SchedulesOf
from penstock.chat.schedules.scheduler import Scheduler
from penstock.cli.options import Most, ProjectFolder
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, WAITING
from penstock.cli.terminal.output import AsJson, note, pretty, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import Moment, to_iso
from penstock.core.text import count
from penstock.store.projections import Page

ScheduleName = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="The schedule's id, such as sched_….")
]
AnySchedule = Annotated[
    str | None, typer.Argument(metavar="SCHEDULE", help="The schedule's id. Default: all.")
]
OfAgent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only schedules of this agent.")
]
InStatus = Annotated[
    ScheduleStatus | None, typer.Option("--status", help="Only schedules in this status.")
]
HowMany = Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many due times.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the end of the task.")]


def list_schedules(
    *,
    agent: OfAgent = None,
    status: InStatus = None,
    limit: Most = 50,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """List schedules, those that are due next first."""

    async def work(runtime: Runtime) -> None:
        of = SchedulesOf(agent=agent, status=status)
        page = Page(limit=limit)
        found, total = await runtime.schedules.list(of, page=page, sort="next_run")
        if as_json:
            print_json({"schedules": [each.to_wire() for each in found], "total": total})
            return
        rows = [
            (
                each.schedule_id,
                each.status.value,
                each.cron or each.type.value,
                _time(each.next_run) if each.status is ScheduleStatus.ACTIVE else "",
                "" if each.last_status is None else each.last_status.value,
                each.name,
            )
            for each in found
        ]
        print_table(("schedule", "status", "when", "next", "last", "name"), rows)
        _explain(found)
        note(f"{len(found)} of {total}")

    run_with_runtime(project, work)


def show_schedule(
    schedule: ScheduleName, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Show a schedule, with its next due times and the end of its newest task."""
    _print_after(partial(Scheduler.get, schedule_id=schedule), project, as_json=as_json)


def pause_schedule(
    schedule: ScheduleName, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Pause a schedule: no due time starts a task until it is resumed."""
    _print_after(partial(Scheduler.pause, schedule_id=schedule), project, as_json=as_json)


def resume_schedule(
    schedule: ScheduleName, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Resume a schedule; its next due time is computed from now."""
    _print_after(partial(Scheduler.resume, schedule_id=schedule), project, as_json=as_json)


def run_schedule(
    schedule: ScheduleName,
    *,
    no_wait: NoWait = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Start a task of a schedule now, and wait for its end. Its due times stay the same."""

    async def work(runtime: Runtime) -> None:
        task_id = await runtime.schedules.run(schedule)
        reply = None if no_wait else await runtime.requests.wait(task_id)
        if reply is None:
            shown: dict[str, Any] = {"task_id": task_id}
        else:
            error = None if reply.error is None else reply.error.message
            shown = {"task_id": task_id, "status": reply.status.value, "error": error}
            shown["content"] = reply.content
        if as_json:
            print_json(shown)
        else:
            say(shown.get("content") or task_id)
        if reply is not None and not reply.status.is_final:
            note(f"The task waits. Run `penstock tasks show {task_id}`.")
            raise typer.Exit(WAITING)
        if reply is not None and reply.error is not None:
            note(f"Error: the task failed: {reply.error.message}")
            raise typer.Exit(FAILED)

    run_with_runtime(project, work)


def next_times(
    schedule: AnySchedule = None,
    *,
    number: HowMany = 10,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Print the next due times: of one schedule, or of all that are active."""

    async def work(runtime: Runtime) -> None:
        if schedule is None:
            of = SchedulesOf(status=ScheduleStatus.ACTIVE)
            found, _ = await runtime.schedules.list(of, page=Page(limit=number), sort="next_run")
        else:
            found = [await runtime.schedules.get(schedule)]
        times = [(due, each) for each in found for due in each.upcoming(number)]
        times.sort(key=lambda each: (each[0], each[1].schedule_id))
        del times[number:]
        if as_json:
            parts = [{"at": to_iso(due), "id": each.schedule_id} for due, each in times]
            print_json({"next": parts})
            return
        rows = [(when(due), each.schedule_id, each.name) for due, each in times]
        print_table(("at", "schedule", "name"), rows)
        _explain(found)
        note(count(len(times), "due time"))

    run_with_runtime(project, work)


COMMANDS = {
    "list": list_schedules,
    "show": show_schedule,
    "run": run_schedule,
    "pause": pause_schedule,
    "resume": resume_schedule,
    "next": next_times,
}


def _print_after(
    act: Callable[[Scheduler], Awaitable[Schedule]], project: ProjectFolder, *, as_json: bool
) -> None:
    async def work(runtime: Runtime) -> None:
        schedule = await act(runtime.schedules)
        if as_json:
            print_json(schedule.to_wire())
            return
        say(pretty(schedule.to_wire()))
        _explain([schedule])

    run_with_runtime(project, work)


def _explain(schedules: Sequence[Schedule]) -> None:
    """Print why the runtime paused schedules, and what to do."""
    for each in schedules:
        if each.reason is not None:
            command = f"penstock schedules resume {each.schedule_id}"
            note(f"{each.schedule_id} is paused: {each.reason}. Run `{command}`.")


def _time(moment: Moment | None) -> str:
    return when(moment) or ""
