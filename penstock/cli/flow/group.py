"""The commands of `penstock flow`: list, show and draw flows; list and end their runs."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.app.flows import project_flows
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import Storage
from penstock.cli.answer import answer
from penstock.cli.completion import flows
from penstock.cli.completion import runs as run_ids
from penstock.cli.flow.authoring import check, generate
from penstock.cli.flow.run import FlowName, start
from penstock.cli.interaction.loop_thread import ending
from penstock.cli.options import Most, ProjectFolder
from penstock.cli.project import find, run_with_runtime
from penstock.cli.terminal.output import AsJson, note, pasted, pretty, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.errors import NotFound
from penstock.core.ids import TaskId
from penstock.core.task import FLOW, TaskRecord
from penstock.flows.pictures import mermaid, svg
from penstock.flows.project.files import FlowFile, FlowIndex, local_by_path
from penstock.flows.project.library import unknown_flow
from penstock.server.routes.flow_results import result_of, status_of
from penstock.store.projections import Page, TasksOf

OneFlow = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Only runs of this flow.", autocompletion=flows),
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, such as task_….", autocompletion=run_ids)
]
AsSvg = Annotated[bool, typer.Option("--svg", help="Draw SVG instead of Mermaid text.")]
Out = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
]


def list_flows(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List the flows of the project."""
    read_project = find(project)
    flows = project_flows(read_project.settings, read_project.project).list()
    if as_json:
        print_json({"flows": [each.to_wire() for each in flows]})
        return
    table = [
        (
            f"/{flow.file.command}",
            str(len(flow.flow.steps) if flow.flow is not None else 0),
            "has errors" if flow.errors else "",
            flow.description,
        )
        for flow in flows
    ]
    print_table(("flow", "steps", "", "description"), table)


def show_flow(name: FlowName, *, project: ProjectFolder = None) -> None:
    """Print the text of a flow; its errors and warnings go to stderr."""
    read_project = find(project)
    library = project_flows(read_project.settings, read_project.project)
    file = _file(library.files(), name)
    read, diagnostics = library.check(file)
    say("\n".join(read.lines))
    for diagnostic in diagnostics:
        note(str(diagnostic))


def graph(
    name: FlowName, *, as_svg: AsSvg = False, out: Out = None, project: ProjectFolder = None
) -> None:
    """Draw a flow as Mermaid text or SVG. Segments are boxes; jumps have labels."""
    read_project = find(project)
    library = project_flows(read_project.settings, read_project.project)
    file = _file(library.files(), name)
    command, flow = file.command, library.check(file)[0].flow
    if flow is None:
        raise NotFound(
            f'"/{command}" has errors: {pasted("penstock", "flow", "check", command)} shows them'
        )
    text = svg(flow) if as_svg else mermaid(flow) + "\n"
    if out is None:
        say(text, end="")
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {out}: {error.strerror}") from None


def result(run_id: RunId, *, project: ProjectFolder = None) -> None:
    """Print the result of a run as JSON."""

    async def work(runtime: Runtime) -> None:
        record = await _found(runtime.parts.storage, run_id)
        flow_result = result_of(record)
        if flow_result is None:
            raise NotFound(f"the run {run_id!r} has no result: its status is {status_of(record)}")
        say(pretty(flow_result))

    run_with_runtime(project, work)


def runs(
    name: OneFlow = None,
    *,
    limit: Most = 20,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """List runs of all flows or of one, newest first. Runs of deleted flows are kept."""
    command = name and name.removeprefix("/")
    of = TasksOf(kind=FLOW, agent=command)

    async def work(runtime: Runtime) -> None:
        records, _ = await runtime.parts.storage.projections.tasks(of=of, page=Page(limit=limit))
        if command and not records:
            runtime.parts.flows.work.library.find(command)
        if as_json:
            print_json({"runs": [_run(each) for each in records]})
            return
        rows = [
            (record.task_id, f"/{record.agent}", status_of(record), when(record.created_at))
            for record in records
        ]
        print_table(("run", "flow", "status", "started"), rows)

    run_with_runtime(project, work)


def abort(run_id: RunId, *, project: ProjectFolder = None) -> None:
    """Abort a run."""

    async def work(runtime: Runtime) -> None:
        task_id = (await _found(runtime.parts.storage, run_id)).task_id
        await runtime.requests.cancel(task_id)
        await runtime.requests.wait(task_id, seconds=runtime.parts.world.limits.shutdown_seconds)
        record = await _found(runtime.parts.storage, run_id)
        say(ending(record, status_of(record)))

    run_with_runtime(project, work)


COMMANDS = {
    "list": list_flows,
    "show": show_flow,
    "check": check,
    "run": start,
    "graph": graph,
    "generate": generate,
    "runs": runs,
    "result": result,
    "abort": abort,
    "answer": answer,
}


async def _found(storage: Storage, run_id: str) -> TaskRecord:
    record = await storage.projections.find_task(TaskId(run_id))
    if record is None or record.kind != FLOW:
        raise NotFound(f"there is no run {run_id!r}; `penstock flow runs` shows all runs.")
    return record


def _file(files: FlowIndex, name: str) -> FlowFile:
    """Return a flow by its command or path. Raises NotFound, which suggests a similar name."""
    command = name.removeprefix("/")
    file = files.files.get(command) or local_by_path(files).get(name.removeprefix("./"))
    if file is None:
        raise unknown_flow(command, files.files)
    return file


def _run(task: TaskRecord) -> dict[str, str]:
    return {"runId": task.task_id, "flow": task.agent, "status": status_of(task)}
