"""`penstock replay`: runs recorded tasks again in memory, and reports the first difference."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from penstock.app.runtime import Runtime
from penstock.app.trial.replay import recorded, replay_saved
from penstock.app.trial.replay import replay as replay_task
from penstock.app.trial.saved_task import SavedTask
from penstock.chat.recorded.replay_report import (
    Difference,
    ReplayChanges,
    ReplayOptions,
    ReplayReport,
    ValueChange,
    short,
)
from penstock.cli.completion import tasks
from penstock.cli.options import ProjectFolder, taking
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, FINE, WRONG_USAGE
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.text import count

_HASHES = {"/hash", "/agentDigest"}
"""Changes that say no more to people than the texts beside them."""
_STOPS = {
    "write": "the next call writes, and a replay never runs a write",
    "until": "as --until says",
}


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock replay`."""

    names: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK",
            help="The task's id, such as task_…; with --check, files of saved tasks.",
            autocompletion=tasks,
        ),
    ]
    system_prompt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use this text as the instructions of the agent."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="With --live: ask this model instead."),
    ] = None
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Go on from the first difference: ask the model, run what only reads."
        ),
    ] = False
    until: Annotated[
        int | None, typer.Option(metavar="SEQ", min=1, help="The newest event to compare.")
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the task to a file for --check, and end."),
    ] = None
    check: Annotated[bool, typer.Option("--check", help="Replay saved tasks: a test for CI.")] = (
        False
    )
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(Options)
def replay(options: Options) -> None:
    """Run a task again in memory with the project as it is now, and report the first difference.

    Replies of models and outcomes of tools are those of the log while their requests are the same:
    nothing is asked, written or paid without --live. Exits with 1 if something differs, and with 2
    if nothing can be compared.
    """
    if not options.check and len(options.names) > 1:
        raise typer.BadParameter("name one task; --check takes several files")
    if options.check and options.save is not None:
        raise typer.BadParameter("--save takes a task, --check takes saved ones")

    async def work(runtime: Runtime) -> list[ReplayReport]:
        if options.save is not None:
            task, storage = (
                await recorded(runtime, options.names[0], runtime.local),
                runtime.parts.storage,
            )
            _write(options.save, await task.to_file(storage.blobs, storage.key))
            return []
        wanted = ReplayOptions(
            changes=ReplayChanges(system_prompt=_text(options.system_prompt), model=options.model),
            live=options.live,
            until=options.until,
        )
        if not options.check:
            return [await replay_task(runtime, options.names[0], wanted, runtime.local)]
        return [await replay_saved(runtime, each, wanted) for each in saved]

    try:
        saved = list(map(_read, options.names)) if options.check else []
        reports = run_with_runtime(options.project, work)
    except PenstockError as error:
        note(f"Error: {error}")
        raise typer.Exit(WRONG_USAGE) from None  # 1 is a difference
    if options.save is not None:
        say(str(options.save))
        note(f"penstock replay --check {options.save}")
        return
    _show(options, reports)
    raise typer.Exit(FINE if all(each.equal for each in reports) else FAILED)


def _show(options: Options, reports: list[ReplayReport]) -> None:
    if options.as_json:
        wires = [each.to_wire() for each in reports]
        if options.check:
            files = zip(options.names, wires, strict=True)
            print_json({"tasks": [{"file": name, **wire} for name, wire in files]})
        else:
            print_json(wires[0])
        return
    for name, report in zip(options.names, reports, strict=True):
        _print(name, report)
    if options.check:
        different = sum(not each.equal for each in reports)
        note(f"{count(len(reports), 'task')}, {different} with a difference")


def _print(name: str, report: ReplayReport) -> None:
    found, far = report.difference, f"{report.compared_events} of {report.total_events} events"
    if found is None:
        say(f"{name}: no difference in {far}")
    else:
        say(f"{name}: differs at {found.path}, event {found.seq} ({found.kind})")
        _print_difference(found)
        note(f"{far} came out the same")
    for later in report.later:
        say(f"then {later.path} ({later.kind}): {later.summary}")
    if (why := _STOPS.get(report.stopped)) is not None:
        note(f"stopped after event {report.up_to_seq}: {why}")
    if report.usage.model_calls:
        calls = count(report.usage.model_calls, "call")
        note(f"{calls} of models, ${report.usage.cost_usd or 0:.4f}")
    for warning in report.warnings:
        note(f"warning: {warning}")


def _print_difference(found: Difference) -> None:
    say(f"  {found.summary}")
    for change in found.diff:
        if change.pointer in _HASHES:
            continue
        say(f"  {change.pointer or '/'}{_place(change)}")
        say(f"    - {short(change.was)}")
        say(f"    + {short(change.now)}")


def _place(change: ValueChange) -> str:
    return "" if change.character is None else f", from character {change.character}"


def _text(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from None


def _read(name: str) -> SavedTask:
    try:
        return SavedTask.from_file(Path(name).read_bytes(), name)
    except OSError as error:
        why = error.strerror or error
        hint = "`penstock replay TASK --save FILE` writes one"
        raise ConfigError(f"cannot read {name}: {why}; {hint}") from None


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None
