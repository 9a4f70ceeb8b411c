"""`penstock fork`: continues a copy of a task from an event in its middle."""

from typing import Annotated

import click
import typer

from penstock.app.runtime import Runtime
from penstock.chat.recorded.fork import ForkRequest
from penstock.chat.wire_forms import fork_part
from penstock.cli.completion import tasks
from penstock.cli.options import ProjectFolder
from penstock.cli.project import run_with_runtime
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.events import MessageReceived
from penstock.core.ids import TaskId

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's id, such as task_….", autocompletion=tasks)
]
At = Annotated[
    int | None,
    typer.Option(
        metavar="SEQ",
        min=1,
        help="The newest event that the copy has; `penstock tasks events` lists them. "
        "[default: the task's message]",
    ),
]
AgentName = Annotated[
    str | None, typer.Option(help="Another agent that continues, from the task's message on.")
]
Edit = Annotated[
    bool, typer.Option("--edit", help="Change the task's message in your editor first.")
]


def fork(
    task_id: TaskName,
    *,
    at: At = None,
    agent: AgentName = None,
    edit: Edit = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Continue a copy of a task from an event in its middle. The task itself stays as it is.

    Calls that have an outcome do not run again. Nothing outside is undone: the writes that the task
    made before the event are listed.
    """

    async def work(runtime: Runtime) -> None:
        task = await runtime.requests.inbox.task(TaskId(task_id), runtime.local)
        seq = at or task.first_seq
        content = None
        if edit:
            records = await runtime.parts.storage.log.read(
                task.log_id, after=task.first_seq - 1, limit=1
            )
            event = records[0].event if records else None
            if not isinstance(event, MessageReceived):
                raise NotFound(f"{task_id} answers no message: it has no message to change")
            content = _edited(event.content)
            if content.rstrip() == event.content.rstrip():  # editors end a file with a newline
                note("the message is as it was: nothing is forked")
                return
        request = ForkRequest(seq=seq, agent=agent, content=content)
        made = await runtime.requests.fork(task_id, request)
        await runtime.requests.wait(made.task_id)
        if as_json:
            print_json(fork_part(made))
            return
        say(made.task_id)
        for each in made.effects:
            note(f"not undone: {' > '.join(each.path)} ({each.status})")
        note(f"penstock tasks show {made.task_id}")

    run_with_runtime(project, work)


def _edited(text: str) -> str:
    """Return a text as a person leaves it in the editor. Raises ConfigError."""
    try:
        return click.edit(text, extension=".md", require_save=False) or ""
    except click.ClickException as error:  # typer catches those of its own copy of click only
        raise ConfigError(f"{error.format_message()}; EDITOR names the editor") from None
