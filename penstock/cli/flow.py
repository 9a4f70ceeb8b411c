"""Flows: list them, look at one, check them, run one and follow it."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console

from penstock.app.flows import project_flows
from penstock.app.runtime import Runtime, outcome_of
from penstock.chat.follow import Source, follow
from penstock.chat.message import NewRun
from penstock.cli.asking import ask_here, show_waiting
from penstock.cli.exit_codes import FAILED, FINE, INVALID_INPUT, WAITING, WRONG_USAGE
from penstock.cli.flow_board import Board
from penstock.cli.options import AsJson, ProjectFolder, taking
from penstock.cli.output import note, print_json
from penstock.cli.project import find, run
from penstock.cli.render import clean, pretty, print_table, when
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.envelope import Envelope, Status
from penstock.core.errors import NotFound
from penstock.core.events import Record, TaskEnded, TaskSuspended
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.question import QuestionRecord
from penstock.core.task import TaskStatus
from penstock.core.text import one_line
from penstock.flows.files import FlowFile
from penstock.flows.graph import mermaid
from penstock.flows.starting import TASK_REQUIRED
from penstock.store.projections import Page

FlowName = Annotated[
    str, typer.Argument(metavar="NAME", help="The flow's command, such as dom:apply.")
]
Task = Annotated[str | None, typer.Argument(metavar="[TASK]", help="What it should do.")]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="KEY=VALUE of a typed input.")
]
Auto = Annotated[bool | None, typer.Option("--auto/--ask", help="Whether nobody is asked.")]
Detach = Annotated[bool, typer.Option("--detach", help="Start it, and do not wait.")]
Paths = Annotated[list[str] | None, typer.Argument(metavar="[NAME]", help="These flows alone.")]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, such as task_….")]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="At most as many.")]
_FLOW = "flow"


def list_flows(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List the flows of the project."""
    found = find(project)
    library = project_flows(found.settings, found.project)
    rows = []
    for command, file in sorted(library.files().files.items()):
        read, diagnostics = library.check(file)
        is_valid = not any(each.severity is Severity.ERROR for each in diagnostics)
        flow = read.flow
        rows.append(
            {
                "name": command,
                "description": one_line(flow.description) if flow else "",
                "source": file.tier.value,
                "path": file.path,
                "stepCount": len(flow.steps) if flow else 0,
                "valid": is_valid,
            }
        )
    if as_json:
        print_json({"flows": rows})
        return
    table = [
        (f"/{row['name']}", str(row["stepCount"]), _valid(row), str(row["description"]))
        for row in rows
    ]
    print_table(("flow", "steps", "", "description"), table)


def show_flow(name: FlowName, *, project: ProjectFolder = None) -> None:
    """Print the text of a flow, with what is wrong in it below."""
    found = find(project)
    library = project_flows(found.settings, found.project)
    file = _file(library.files().files, name)
    read, diagnostics = library.check(file)
    print(clean("\n".join(read.lines)))
    for each in diagnostics:
        note(clean(str(each)))


def check(
    names: Paths = None,
    *,
    strict: Strict = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Find everything that is wrong with flows, all at once."""
    found = find(project)
    library = project_flows(found.settings, found.project)
    files = library.files()
    wanted = [_file(files.files, name) for name in names or sorted(files.files)]
    diagnostics: list[Diagnostic] = [] if names else list(files.diagnostics)
    for file in wanted:
        diagnostics += library.check(file)[1]
    errors = sum(each.severity is Severity.ERROR for each in diagnostics)
    warnings = len(diagnostics) - errors
    if as_json:
        print_json(
            {
                "problems": [each.to_wire() for each in diagnostics],
                "flows": len(wanted),
                "errors": errors,
                "warnings": warnings,
            }
        )
    else:
        for each in diagnostics:
            print(clean(str(each)))
        print(f"{len(wanted)} flows, {errors} errors, {warnings} warnings")
    raise typer.Exit(FAILED if errors or (strict and warnings) else FINE)


def graph(name: FlowName, *, project: ProjectFolder = None) -> None:
    """Print the flow as Mermaid text: segments as boxes, dependencies, jumps with labels."""
    found = find(project)
    library = project_flows(found.settings, found.project)
    file = _file(library.files().files, name)
    flow = library.check(file)[0].flow
    if flow is None:
        raise NotFound(f'"/{name}" has errors: penstock flow check {name} shows them')
    print(mermaid(flow))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `penstock flow run` takes."""

    name: FlowName
    task: Task = None
    inputs: Inputs = None
    auto: Auto = None
    detach: Detach = False
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(RunOptions)
def start(options: RunOptions) -> None:
    """Run a flow, and show its steps as they happen; questions are asked here.

    Exit codes: 0 success, 1 error or aborted, 2 unknown flow or no task, 3 rejected, 4 it waits for
    a person.
    """
    as_json = options.as_json
    asked = NewRun(
        command=options.name.removeprefix("/"),
        task=options.task,
        inputs=_inputs(options.inputs or []),
        autonomous=options.auto,
    )

    async def work(runtime: Runtime) -> int:
        watched = _Watched(runtime, is_quiet=as_json, is_asking=sys.stdin.isatty() and not as_json)
        task_id = TaskId(new_id("task"))
        if options.detach:
            await runtime.start_flow(asked, task_id=task_id)
            print(task_id)
            return WAITING
        envelope = await watched.through(asked, task_id)
        _print_result(envelope, as_json=as_json)
        return _code(envelope)

    raise typer.Exit(run(options.project, work))


def result(run_id: RunId, *, project: ProjectFolder = None) -> None:
    """Print the result of a run as JSON."""

    async def work(runtime: Runtime) -> None:
        record = await runtime.parts.projections.find_task(TaskId(run_id))
        if record is None or record.kind != _FLOW:
            raise NotFound(f"there is no run {run_id!r}; penstock flow runs lists them")
        envelope = (record.outcome or {}).get("envelope")
        if envelope is None:
            raise NotFound(f"the run {run_id!r} has no result yet: it is {record.status}")
        print(clean(pretty(envelope["output"])))

    run(project, work)


def runs(*, limit: Most = 20, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List runs, newest first."""

    async def work(runtime: Runtime) -> None:
        found, _ = await runtime.parts.projections.tasks(page=Page(limit=limit))
        flows = [each for each in found if each.kind == _FLOW]
        if as_json:
            print_json({"runs": [{"runId": each.task_id, "status": each.status} for each in flows]})
            return
        rows = [
            (each.task_id, f"/{each.agent}", each.status, when(each.created_at)) for each in flows
        ]
        print_table(("run", "flow", "status", "started"), rows)

    run(project, work)


def abort(run_id: RunId, *, project: ProjectFolder = None) -> None:
    """End a run, whatever it is doing."""

    async def work(runtime: Runtime) -> None:
        record = await runtime.cancel(TaskId(run_id))
        print(f"{record.task_id} {record.status.value}")

    run(project, work)


COMMANDS = {
    "list": list_flows,
    "show": show_flow,
    "check": check,
    "run": start,
    "graph": graph,
    "runs": runs,
    "result": result,
    "abort": abort,
}


class _Watched:
    """A run, with the person who looks at it."""

    def __init__(self, runtime: Runtime, *, is_quiet: bool, is_asking: bool) -> None:
        self._runtime = runtime
        self._board = None if is_quiet else Board(Console(highlight=False, stderr=True))
        self._is_asking = is_asking
        self._shown = 0

    async def through(self, asked: NewRun, task_id: TaskId) -> Envelope:
        """Return the outcome, after every question that a person at the terminal answered."""
        await self._runtime.start_flow(asked, task_id=task_id)
        while True:
            await self._show(task_id)
            reply = await self._runtime.wait(task_id)
            assert reply is not None  # noqa: S101  it waits as long as it takes
            if reply.status is not TaskStatus.SUSPENDED or not await self._answer(reply.questions):
                return outcome_of(reply)

    async def _show(self, task_id: TaskId) -> None:
        """Show what happens, until the run has ended or waits."""
        parts = self._runtime.parts
        source = Source(log=parts.log, bus=parts.bus, limits=parts.limits)
        items = follow(source, LogId(task_id), after=self._shown, task_id=task_id)
        async for item in items:
            if isinstance(item, Record):
                self._shown = item.seq
                if self._board is not None:
                    self._board.show(item)
                if isinstance(item.event, TaskEnded | TaskSuspended):
                    return

    async def _answer(self, waiting: Sequence[QuestionRecord]) -> bool:
        if not self._is_asking or not waiting:
            show_waiting(waiting)
            return False
        body = await asyncio.to_thread(ask_here, waiting[0])
        if body is None:
            return False
        await self._runtime.answer(waiting[0].question.question_id, body)
        return True


def _file(files: dict[str, FlowFile], name: str) -> FlowFile:
    command = name.removeprefix("/")
    if command not in files:
        known = ", ".join(f"/{each}" for each in sorted(files)) or "none"
        raise NotFound(f'there is no flow "/{command}"; there are: {known}')
    return files[command]


def _inputs(pairs: list[str]) -> dict[str, Any]:
    """Read `key=value`s: a value that is JSON is that, another is a text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"an input is key=value, found {pair!r}")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def _valid(row: Mapping[str, object]) -> str:
    return "" if row["valid"] else "has errors"


def _print_result(envelope: Envelope, *, as_json: bool) -> None:
    if as_json:
        print_json(envelope.output if envelope.output is not None else envelope.to_wire())
        return
    if envelope.status is Status.SUSPENDED:
        return
    result = envelope.output or {}
    last = result.get("lastResult") or {}
    print(clean(str(result.get("reason") or last.get("summary") or "")))


def _code(envelope: Envelope) -> int:
    if envelope.ok:
        return FINE
    if envelope.status is Status.SUSPENDED:
        return WAITING
    code = envelope.error.code if envelope.error else ""
    if code in {NotFound.code, TASK_REQUIRED}:
        return WRONG_USAGE
    is_rejected = (envelope.output or {}).get("status") == "rejected"
    return INVALID_INPUT if is_rejected else FAILED
