"""Puts the questions of a task to the person at the terminal until an answer counts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.message import NewCall
from penstock.cli.arguments.project import opened
from penstock.cli.interaction.asker import Asker, Part
from penstock.cli.interaction.background import Background
from penstock.cli.terminal.keyboard import IsOver
from penstock.core.errors import PenstockError, QuestionClosed
from penstock.core.task import QuestionRecord

TOOL = '''
from penstock import ToolContext, tool

@tool(effect="none", direct_call=True)
async def pick(ctx: ToolContext) -> str:
    """Ask for a colour."""
    return str(await ctx.ask("Which colour?", options=["red", "green"]))
'''


class Person:
    """Gives these answers, and remembers what was asked and refused."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.refused: list[str] = []

    def ask(self, question: Part, is_over: IsOver) -> dict[str, Any] | None:
        self.asked.append(question["text"])
        if is_over():
            raise QuestionClosed("it was answered elsewhere")
        return self._answers.pop(0)

    def tell(self, error: PenstockError) -> None:
        self.refused.append(str(error))


@pytest.fixture
def background() -> Iterator[Background]:
    """A loop in a thread."""
    with Background() as running:
        yield running


@pytest.fixture
def runtime(project: Path, background: Background) -> Iterator[Runtime]:
    """A project with a tool that asks."""
    (project / "tools" / "pick.py").write_text(TOOL)
    context = opened(project)
    yield background.enter(context)
    background.leave(context)


@pytest.fixture
def record(runtime: Runtime, background: Background) -> QuestionRecord:
    """The question of a call that waits for its answer."""
    task_id = background.do(runtime.request(NewCall(tool_id="pick", input={})))
    reply = background.do(runtime.wait(task_id))
    assert reply is not None
    return reply.questions[0]


def outcome(runtime: Runtime, background: Background, record: QuestionRecord) -> Any:
    reply = background.do(runtime.wait(record.task_id))
    assert reply is not None
    assert reply.envelope is not None
    return reply.envelope.output


def asker(runtime: Runtime, background: Background, person: Person) -> Asker:
    return Asker(runtime, background, ask=person.ask, tell=person.tell)


def test_an_invalid_option_is_asked_again_with_the_options(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    person = Person({"text": "re"}, {"value": "green"})
    asking = asker(runtime, background, person)
    assert asking.meet(record)
    assert asking.meet(record)
    assert person.asked == ["Which colour?"] * 2
    assert len(person.refused) == 1
    assert "answer must be one of: red, green" in person.refused[0]
    assert outcome(runtime, background, record) == "green"


def test_a_question_that_is_left_open_is_not_asked_again(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    person = Person(None)
    asking = asker(runtime, background, person)
    assert [asking.meet(record), asking.meet(record)] == [False, False]
    assert (person.asked, asking.is_closed(record.question.question_id)) == (
        ["Which colour?"],
        False,
    )


def test_a_question_that_was_answered_elsewhere_is_not_asked(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    background.do(runtime.answer(record.question.question_id, {"value": "red"}))
    person = Person()
    assert asker(runtime, background, person).meet(record)
    assert person.asked == []


def test_a_question_that_is_answered_elsewhere_meanwhile_is_closed(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    person = Person({"value": "green"})

    def ask(question: Part, is_over: IsOver) -> dict[str, Any] | None:
        background.do(runtime.answer(record.question.question_id, {"value": "red"}))
        return person.ask(question, is_over)

    asking = Asker(runtime, background, ask=ask, tell=person.tell)
    assert asking.meet(record)
    assert person.refused == ["it was answered elsewhere"]
    assert outcome(runtime, background, record) == "red"


def test_ctrl_c_leaves_the_question_to_be_asked_again(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    def leave(question: Part, is_over: IsOver) -> None:
        raise KeyboardInterrupt

    asking = Asker(runtime, background, ask=leave, tell=Person().tell)
    with pytest.raises(KeyboardInterrupt):
        asking.meet(record)
    assert not asking.has_met(record.question.question_id)
