"""`penstock undo`: takes back what a task did, or shows what can be taken back."""

from typing import Annotated

import typer

from penstock.app.runtime import Runtime
from penstock.chat.recorded.undo import Undo, UndoCall
from penstock.cli.completion import tasks
from penstock.cli.interaction.asking import show_waiting
from penstock.cli.options import ProjectFolder
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.exit_codes import FAILED, FINE, WAITING
from penstock.cli.terminal.output import AsJson, compact, note, print_json
from penstock.cli.terminal.render import print_table
from penstock.core.ids import QuestionId
from penstock.core.text import count, cut

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's id, such as task_….", autocompletion=tasks)
]
CallName = Annotated[
    str | None,
    typer.Option("--call", metavar="ID", help="Take back this call only; see the first column."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what can be taken back.")]
_CODES = {"succeeded": FINE, "planned": FINE, "nothing": FINE}
_WAITS = ("suspended", "blocked", "running")
_SHOWN = 60
"""Characters of an input or an output in the table."""


def undo(
    task: TaskName,
    *,
    call: CallName = None,
    dry_run: DryRun = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take back what a task did, newest call first, with the reverts that its tools declare.

    A task that has not ended is cancelled first. Exit codes: 0 success, 1 a revert failed, 4
    waiting for a person.
    """

    async def work(runtime: Runtime) -> int:
        made = await runtime.undo(task, call=call, dry_run=dry_run)
        if as_json:
            print_json(made.to_wire())
        else:
            _show(made)
            find = runtime.parts.storage.projections.find_question
            found = [await find(QuestionId(each.id)) for each in made.questions]
            show_waiting([each for each in found if each is not None])
        return WAITING if made.status in _WAITS else _CODES.get(made.status, FAILED)

    raise typer.Exit(run_with_runtime(project, work))


def _show(made: Undo) -> None:
    if made.calls:
        print_table(("call", "tool", "input or output", "state", "why"), map(_row, made.calls))
    if made.error is not None:
        note(f"Error: {made.error.message}")
    note(_summary(made))


def _row(call: UndoCall) -> tuple[str, ...]:
    known = call.output if call.input is None else compact(call.input)
    return call.id, call.tool, cut(known, _SHOWN), call.status, call.reason


def _summary(made: Undo) -> str:
    """Return what happened, and what to do next."""
    by = {each: [one for one in made.calls if one.status == each] for each in _STATES}
    stays = f"; {count(len(by['impossible']), 'call')} cannot be" if by["impossible"] else ""
    if made.status == "planned":
        return f"{count(len(by['ready']), 'call')} can be taken back{stays}"
    if made.status == "nothing":
        return "There is nothing to take back."
    return f"{made.undo_id} {made.status}: {count(len(by['undone']), 'call')} taken back{stays}"


_STATES = ("ready", "undone", "unclear", "impossible")
