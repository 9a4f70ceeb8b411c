"""Ctrl-C cancels the task; a person who does not wait for its end reads how to follow it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.message import NewMessage
from penstock.cli.arguments.project import opened
from penstock.cli.interaction.background import Background
from penstock.cli.interaction.stopping import TaskStopper
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus


@pytest.fixture
def background() -> Iterator[Background]:
    """A loop in a thread."""
    with Background() as running:
        yield running


@pytest.fixture
def runtime(project: Path, background: Background) -> Iterator[Runtime]:
    """A project that is open."""
    context = opened(project)
    yield background.enter(context)
    background.leave(context)


def test_the_task_is_cancelled_and_a_note_explains_how_to_exit(
    runtime: Runtime, background: Background, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = background.do(runtime.send(NewMessage(content="ask_user question=Well? type=input")))
    background.do(runtime.wait(asked.task_id))
    stopping = TaskStopper(runtime, background, asked.task_id)
    reply = background.do(runtime.wait(asked.task_id))
    assert reply
    assert reply.status is TaskStatus.CANCELLED
    assert capsys.readouterr().err == "Cancelling. Press Ctrl-C again to exit at once.\n"
    assert stopping.farewell.endswith(f"penstock tasks events {asked.task_id} --follow")


def test_a_task_that_cannot_be_cancelled_now_can_be_later(
    runtime: Runtime, background: Background
) -> None:
    farewell = TaskStopper(runtime, background, TaskId("task_1")).farewell
    assert farewell == (
        "The task could not be cancelled; a server would continue it. Run: "
        "penstock tasks cancel task_1"
    )
