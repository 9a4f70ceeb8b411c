"""A conversation at a terminal, without the terminal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.interaction.conversation import Conversation, Frame
from penstock.cli.interaction.loop_thread import Background
from penstock.cli.project import opened
from penstock.cli.terminal.exit_codes import FINE, INTERRUPTED, WAITING
from penstock.cli.terminal.keyboard import IsOver
from tests.kit.flow_server import ASKS, LOOK, laid

TOOLS = '''
from penstock import tool

@tool(effect="write", requires_approval=True)
def send(to: str) -> str:
    """Send a letter to somebody."""
    return f"sent to {to}"
'''


AGAIN = ASKS.replace("Go: look", "Go: sure").replace(
    "  - {id: look",
    '  - {id: sure, question: "Sure?", branches: {Yes: look, No: tell}}\n  - {id: look',
)


PASSING = {"thinking", "content_delta", "suspended"}
"""Whether a task is parked before its question is answered depends on timing."""


class Person:
    """Records frames, and returns prepared answers."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.seen: list[Frame] = []
        self._answers = list(answers)

    def show(self, frame: Frame) -> None:
        self.seen.append(frame)

    def ask(self, question: Frame, is_over: IsOver) -> dict[str, Any] | None:
        return self._answers.pop(0)

    def types(self) -> list[str]:
        kinds = [str(each["type"]) for each in self.seen]
        return [kind for kind in kinds if kind not in PASSING]


@pytest.fixture
def background() -> Iterator[Background]:
    """A loop in a thread."""
    with Background() as running:
        yield running


@pytest.fixture
def runtime(project: Path, background: Background) -> Iterator[Runtime]:
    """A project that is open."""
    laid(project, {"look.yaml": LOOK, "again.yaml": AGAIN})
    (project / "tools" / "send.py").write_text(TOOLS)
    context = opened(project)
    yield background.enter(context)
    background.leave(context)


def talk(runtime: Runtime, background: Background, person: Person) -> Conversation:
    return Conversation(runtime, background, show=person.show, ask=person.ask)


def test_messages_follow_each_other_in_one_session(
    runtime: Runtime, background: Background
) -> None:
    person = Person()
    conversation = talk(runtime, background, person)
    assert conversation.say("hello name=Ann") == FINE
    first = conversation.session_id
    assert conversation.say("hello name=Bo") == FINE
    assert conversation.session_id == first
    assert person.types() == ["message_start", "tool_call", "tool_result", "message_complete"] * 2


def test_a_question_is_asked_until_its_answer_is_valid(
    runtime: Runtime, background: Background
) -> None:
    person = Person({"decision": "maybe"}, {"decision": "approve"})
    assert talk(runtime, background, person).say("send to=Ann") == FINE
    assert person.types() == [
        "message_start",
        "tool_call",
        "question",
        "error",
        "question_answered",
        "tool_result",
        "message_complete",
    ]
    assert person.seen[-1]["toolResults"][0]["result"] == "sent to Ann"


def test_a_postponed_question_leaves_the_task_waiting(
    runtime: Runtime, background: Background
) -> None:
    person = Person(None)
    assert talk(runtime, background, person).say("send to=Ann") == WAITING
    assert person.seen[-1]["type"] == "suspended"


def test_a_task_cancelled_by_ctrl_c_ends_as_interrupted(
    runtime: Runtime, background: Background
) -> None:
    person = Person()
    conversation = Conversation(runtime, background, show=person.show, ask=leave)
    assert conversation.say("send to=Ann") == INTERRUPTED
    assert person.seen[-1]["code"] == "CANCELLED"


def leave(question: Frame, is_over: IsOver) -> None:
    raise KeyboardInterrupt


def questions(person: Person) -> list[str]:
    return [str(each["text"]) for each in person.seen if each["type"] == "question"]


def test_a_question_of_a_run_is_asked_at_the_prompt(
    runtime: Runtime, background: Background
) -> None:
    person = Person({"value": "Never"}, {"value": "Go"}, {"value": "Yes"})
    assert talk(runtime, background, person).say("/again now") == FINE
    assert questions(person) == ["Go on?", "Sure?"]
    assert person.types() == [
        "message_start",
        "tool_call",
        "question",
        "error",
        "question",
        "tool_result",
        "message_complete",
    ]
    assert "offline model" in person.seen[-1]["content"]


def test_a_postponed_question_leaves_the_run_waiting(
    runtime: Runtime, background: Background
) -> None:
    person = Person({"value": "Go"}, None)
    assert talk(runtime, background, person).say("/again now") == WAITING
    assert questions(person) == ["Go on?", "Sure?"]


def test_ctrl_c_at_the_question_of_a_run_cancels_the_message(
    runtime: Runtime, background: Background
) -> None:
    person = Person()
    conversation = Conversation(runtime, background, show=person.show, ask=leave)
    assert conversation.say("/again now") == INTERRUPTED
    assert person.seen[-1]["code"] == "CANCELLED"
