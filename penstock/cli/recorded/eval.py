"""Evaluates agents: runs a file of cases, and makes a case of a recorded task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.app.runtime import Runtime
from penstock.cli.completion import agents
from penstock.cli.options import ProjectFolder, taking
from penstock.cli.project import read_settings, run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, FINE
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import to_iso
from penstock.core.errors import ConfigError, NotFound
from penstock.core.ids import ASSISTANT
from penstock.evals.dataset import Dataset
from penstock.evals.recorded import add_case, case_of
from penstock.evals.report import Attempt, Report
from penstock.evals.run import evaluate
from penstock.evals.stored_runs import RunRecord, StoredRuns, plan_of
from penstock.evals.views import print_report, to_junit, to_markdown


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock eval run`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cases in YAML or JSONL.")]
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            "-a",
            metavar="NAME",
            help="The agent to ask. Default: the one that the file names.",
            autocompletion=agents,
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="Ask this model; repeat it to compare models."
        ),
    ] = None
    repeat: Annotated[int, typer.Option(min=1, help="How often each case is asked.")] = 1
    concurrency: Annotated[int, typer.Option(min=1, help="How many cases run at once.")] = 8
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Ask only what failed in the earlier run.")
    ] = False
    since: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The earlier run to compare with. Default: the last one."),
    ] = None
    new: Annotated[
        bool, typer.Option("--new", help="Start a new run even if the last one was cut.")
    ] = False
    min_pass: Annotated[
        float,
        typer.Option(min=0, max=1, help="Exit with 1 if a smaller share of attempts passes."),
    ] = 1.0
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Markdown.")] = None
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(Options)
def run_file(options: Options) -> None:
    """Ask an agent with every case of a file, score the replies, and print a report.

    A run that was cut continues: no finished case is asked again. `penstock eval FILE`
    is short for `penstock eval run FILE`.
    """
    settings = read_settings(options.project)
    for file in (options.junit, options.markdown):
        _check_place(file)
    runs, dataset = StoredRuns(settings.data_path), Dataset.from_file(options.file)
    earlier = runs.get(options.since) if options.since else runs.last(dataset.name)
    if options.only_failed:
        dataset = _failed_cases(dataset, earlier)
        earlier = earlier and earlier.within({each.name for each in dataset.cases})
    agent = options.agent or dataset.agent or ASSISTANT
    models = tuple(options.models or ())
    names = [each.name for each in dataset.cases]
    plan = plan_of([options.file.read_bytes(), agent, options.repeat, *models, "\0", *names])

    async def work(runtime: Runtime) -> Report:
        _check_agent(runtime, agent, options.file)
        started = Report(
            run_id=runtime.parts.world.new_id("eval"),
            dataset=dataset.name,
            agent=agent,
            attempts=(),
            started_at=runtime.parts.world.clock.now(),
        )
        record = runs.begin(plan, started, is_new=options.new)
        current = record.report
        if current is not started:
            note(f"the run {current.run_id} was cut and continues; --new starts another one")
        total = len(names) * max(1, len(models)) * options.repeat
        with runs.making(record), ProgressBar(total) as bar:
            report = await evaluate(
                dataset,
                agent=agent,
                runtime=runtime,
                repeat=options.repeat,
                concurrency=options.concurrency,
                models=models,
                run_id=current.run_id,
                on_attempt=bar.show,
            )
        runs.finish(record, report)
        return report

    report = run_with_runtime(options.project, work)
    _show(options, report, earlier)
    raise typer.Exit(FINE if report.pass_rate >= options.min_pass else FAILED)


def _check_agent(runtime: Runtime, agent: str, file: Path) -> None:
    """Raise NotFound unless the project's files have the agent: no other is asked instead."""
    try:
        runtime.parts.chat.agents.get(agent)
    except NotFound as error:
        raise NotFound(
            f"{error} An agent of a Python program is evaluated there: "
            f"evaluate_sync(Dataset.from_file({str(file)!r}), agent=...)"
        ) from None


def _check_place(file: Path | None) -> None:
    """Raise ConfigError for a file that cannot be written: a run may take long and cost much."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise ConfigError(f"cannot write {file}: {why}")


def _write(file: Path | None, content: bytes) -> None:
    if file is not None:
        try:
            file.write_bytes(content)
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _failed_cases(dataset: Dataset[Any], earlier: Report | None) -> Dataset[Any]:
    if earlier is None:
        raise NotFound(f"--only-failed needs a finished run of {dataset.name!r}; there is none yet")
    failed = [each for each in dataset.cases if each.name in set(earlier.failed)]
    if not failed:
        raise ConfigError(f"no case of {dataset.name!r} failed in the run {earlier.run_id}")
    return Dataset(dataset.name, failed, scorers=dataset.scorers, agent=dataset.agent)


def _show(options: Options, report: Report, earlier: Report | None) -> None:
    if options.as_json:
        say(report.to_json().decode())
    else:
        print_report(report, earlier)
        note(f"run {report.run_id}; --since {report.run_id} compares a later run with it")
    _write(options.junit, to_junit(report))
    _write(options.markdown, to_markdown(report, earlier).encode())


class ProgressBar:
    """Shows on stderr how many attempts are scored and how many passed."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._bar.add_task("0 failed", total=total)
        self._failed = 0

    def __enter__(self) -> Self:
        """Start to draw."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        self._bar.stop()

    def show(self, attempt: Attempt) -> None:
        """Count an attempt."""
        self._failed += not attempt.passed
        self._bar.update(self._task, advance=1, description=f"{self._failed} failed")


def add(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task that ended well.")],
    *,
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The YAML file to add it to.")
    ] = Path("evals/recorded.yaml"),
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the case.")] = None,
    project: ProjectFolder = None,
) -> None:
    """Make a case of a recorded task: its message, its answer, and the tools that it called."""

    async def work(runtime: Runtime) -> tuple[str, Mapping[str, Any]]:
        return await case_of(runtime, task, name)

    agent, case = run_with_runtime(project, work)
    add_case(file, agent, case)
    say(f"added the case {case['name']!r} to {file}; try it: penstock eval {file}")


def list_runs(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List the runs of the project, newest first."""
    records = StoredRuns(read_settings(project).data_path).records()
    if as_json:
        reports = [(each.report, each.is_finished) for each in records]
        print_json({"runs": [_summary(report) | {"isFinished": done} for report, done in reports]})
        return
    columns = ("run", "dataset", "agent", "started", "passed")
    rows = [
        (each.run_id, each.dataset, each.agent, when(each.started_at), rate)
        for record in records
        for each, rate in [(record.report, _rate(record))]
    ]
    print_table(columns, rows)


def _rate(record: RunRecord) -> str:
    if record.is_finished:
        return str(record.report.rate)
    return "cut; run it again to continue" if record.is_cut else "under way"


def _summary(report: Report) -> dict[str, Any]:
    return {
        "id": report.run_id,
        "dataset": report.dataset,
        "agent": report.agent,
        "startedAt": to_iso(report.started_at),
        "passed": report.rate.passed,
        "attempts": report.rate.attempts,
    }


COMMANDS = {"run": run_file, "add": add, "list": list_runs}
