"""Asks a person at the terminal, also for nested runs."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewCall, NewRun
from penstock.chat.wire_forms import question_record
from penstock.cli.interaction.asking import (
    Asker,
    Part,
    Read,
    ask,
    ask_here,
    asked_below,
    show_question,
    text_answer,
    with_questions,
)
from penstock.cli.interaction.loop_thread import Background
from penstock.cli.project import opened
from penstock.cli.terminal.keyboard import Complete, IsOver, nothing
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import PenstockError, QuestionClosed, StoreCorrupt
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.task import Question, QuestionKind, QuestionRecord
from tests.kit.flow_server import ASKS, LOOK, laid
from tests.kit.flows import HEAD


def person(*lines: str) -> Read:
    result = iter(lines)

    def read(prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        line = next(result, None)
        if line is None:
            raise EOFError
        return line

    return read


APPROVALS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("y",), {"decision": "approve"}),
    (("YES ",), {"decision": "approve"}),
    (("what?", "", "y"), {"decision": "approve"}),
    (("n", ""), {"decision": "reject"}),
    (("no", "too dear"), {"decision": "reject", "note": "too dear"}),
    (("e", '{"to": "bob"}'), {"decision": "approve", "input": {"to": "bob"}}),
    (("e", "{", "", '{"a": 1}'), {"decision": "approve", "input": {"a": 1}}),
    (("e", ""), {"decision": "approve", "input": {"to": "Ann"}}),
]


@pytest.mark.parametrize(("lines", "body"), APPROVALS)
def test_an_approval_is_yes_no_or_an_edited_input(
    lines: tuple[str, ...], body: dict[str, Any]
) -> None:
    asked = {"kind": "approval", "arguments": {"to": "Ann"}}
    assert ask(asked, person(*lines)) == body


OPTIONS = [{"label": "Go on", "value": "go"}, {"label": "Stop", "value": "stop"}]
ANSWERS = [
    ("1", {"value": "go"}),
    ("STOP", {"value": "stop"}),
    ("go on", {"value": "go"}),
    ("3", {"text": "3"}),
    (" neither ", {"text": "neither"}),
]


@pytest.mark.parametrize(("line", "body"), ANSWERS)
def test_an_option_is_chosen_by_number_value_or_label(line: str, body: dict[str, str]) -> None:
    question = {"kind": "ask_user", "options": OPTIONS}
    assert text_answer(question, line) == body
    assert ask(question, person(line)) == body


@pytest.mark.parametrize(
    ("form", "line", "body"),
    [
        ({"type": "confirm"}, " Y ", {"value": True}),
        ({"type": "confirm"}, "no", {"value": False}),
        ({"type": "confirm"}, "hm", {"text": "hm"}),
        ({"type": "select", "multiSelect": True}, "1, stop", {"value": ["go", "stop"]}),
    ],
)
def test_a_line_answers_yes_or_no_and_several_options(
    form: dict[str, Any], line: str, body: dict[str, Any]
) -> None:
    options = OPTIONS if form["type"] == "select" else []
    question = {"kind": "ask_user", "options": options, "form": form}
    assert ask(question, person(line)) == body


def test_ctrl_d_postpones_the_answer() -> None:
    with pytest.raises(EOFError):
        ask({"kind": "approval"}, person("hm"))


PAYLOADS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("May", ""), {"text": "May"}),
    (("May", '{"pages": 3}'), {"text": "May", "resume_payload": {"pages": 3}}),
    (("May", "{", "", "null"), {"text": "May", "resume_payload": None}),
]


@pytest.mark.parametrize(("lines", "body"), PAYLOADS)
def test_a_script_receives_text_and_data(lines: tuple[str, ...], body: dict[str, Any]) -> None:
    assert ask({"kind": "user_message", "text": "?", "schema": {}}, person(*lines)) == body
    assert ask({"kind": "user_message", "text": "?"}, person("May")) == {"text": "May"}


ASKED = QuestionRecord(
    question=Question(
        question_id=QuestionId("q_1"),
        kind=QuestionKind.ASK_USER,
        text="Which?",
        path=CallPath("c_1"),
    ),
    log_id=LogId("ses_1"),
    task_id=TaskId("task_1"),
    profile_id=ProfileId("local"),
    agent="assistant",
    asked_at=Moment(0),
)


@pytest.mark.parametrize(
    ("lines", "body"), [("the red one\n", {"text": "the red one"}), ("", None)]
)
def test_a_question_is_shown_on_stderr(
    lines: str,
    body: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    show_question(question_record(ASKED))
    assert ask_here(question_record(ASKED)) == body
    printed = capsys.readouterr()
    assert "Which?" in printed.err
    assert "Which?" not in printed.out


FORK_FORM = {"type": "select", "allowDecide": True}
FORKS: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (FORK_FORM, "1", {"value": "go"}),
    (FORK_FORM, " /Decide", {"decide": True}),
    (FORK_FORM, "/cancel", {"cancel": True}),
    ({"type": "select", "allowDecide": False}, "/decide", {"text": "/decide"}),
]


@pytest.mark.parametrize(("form", "line", "body"), FORKS)
def test_a_fork_can_be_left_to_the_agent_or_cancelled(
    form: dict[str, Any], line: str, body: dict[str, Any]
) -> None:
    """14.2: "`{decide: true}` when the step names an agent", "`{cancel: true}`: run aborted"."""
    question = {"kind": "fork", "options": OPTIONS, "form": form}
    assert ask(question, person(line)) == body


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ({"kind": "ask_user", "form": {"type": "input", "defaultValue": "A\x1b[1m\nnn"}}, "[A"),
        ({"kind": "ask_user", "form": None}, "answer> "),
        ({"kind": "ask_user", "form": {"type": "confirm"}}, "[y]es or [n]o> "),
        ({"kind": "user_message"}, "answer> "),
        ({"kind": "ask_user", "options": OPTIONS}, "an option, or a text of your own> "),
        ({"kind": "ask_user", "options": OPTIONS, "form": {"type": "select"}}, "answer> "),
        ({"kind": "fork", "form": FORK_FORM}, "answer, or /decide or /cancel> "),
        ({"kind": "fork", "form": {"type": "select"}}, "answer, or /cancel> "),
    ],
)
def test_the_prompt_shows_the_default_and_the_other_answers(
    question: dict[str, Any], begins: str
) -> None:
    """14.2: "nothing or `null` when there is a `defaultValue`": the text, or the default."""
    shown: list[str] = []

    def read(prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        shown.append(prompt)
        return ""

    assert ask(question, read) == {"text": ""}
    assert begins in shown[0]
    assert not {"\x1b", "\n"} & set(shown[0])


TOOL = '''
from penstock import ToolContext, tool

@tool(effect="none", direct_call=True)
async def pick(ctx: ToolContext) -> str:
    """Ask for a colour."""
    return str(await ctx.ask("Which colour?", options=["red", "green"]))
'''


class Person:
    """Returns prepared answers, and records questions and refusals."""

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
    task_id = background.do(runtime.start_call(NewCall(tool_id="pick", input={})))
    reply = background.do(runtime.requests.wait(task_id))
    assert reply is not None
    return reply.questions[0]


def outcome(runtime: Runtime, background: Background, record: QuestionRecord) -> Any:
    reply = background.do(runtime.requests.wait(record.task_id))
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


def test_a_postponed_question_is_not_asked_again(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    person = Person(None)
    asking = asker(runtime, background, person)
    assert [asking.meet(record), asking.meet(record)] == [False, False]
    assert (person.asked, asking.is_closed(record.question.question_id)) == (
        ["Which colour?"],
        False,
    )


def test_a_question_answered_elsewhere_is_not_asked(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    background.do(runtime.requests.answer(record.question.question_id, {"value": "red"}))
    person = Person()
    assert asker(runtime, background, person).meet(record)
    assert person.asked == []


def test_a_question_answered_elsewhere_during_the_prompt_is_closed(
    runtime: Runtime, background: Background, record: QuestionRecord
) -> None:
    person = Person({"value": "green"})

    def ask(question: Part, is_over: IsOver) -> dict[str, Any] | None:
        background.do(runtime.requests.answer(record.question.question_id, {"value": "red"}))
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


pytestmark = pytest.mark.slow("opens a store, and runs flows in flows")
STARTS = HEAD + "steps:\n  - {id: inner, agent: starter, task: execute_workflow workflowId=NEXT}\n"
STARTER = "---\nname: starter\ndescription: d\ntools: execute_workflow\n---\nStart.\n"


@pytest.fixture
async def flows(project: Path) -> AsyncIterator[Runtime]:
    """A project with a flow that asks, one that starts it, and one that starts that."""
    one, two = (STARTS.replace("NEXT", each) for each in ("asks", "one"))
    laid(project, {"look.yaml": LOOK, "asks.yaml": ASKS, "one.yaml": one, "two.yaml": two})
    (project / "agents/starter.md").write_text(STARTER)
    async with opened(project) as runtime:
        yield runtime


@pytest.mark.parametrize("command", ["one", "two"])
async def test_a_question_below_a_task_is_reported_once(flows: Runtime, command: str) -> None:
    """At any depth. Questions of other tasks, and of the task itself, are not reported."""
    other, task_id = TaskId("task_other"), TaskId("task_mine")
    await flows.start_flow(NewRun(command="one"), task_id=other)
    await flows.requests.wait(other)
    await flows.start_flow(NewRun(command=command), task_id=task_id)
    questions = asked_below(flows, task_id, poll_seconds=0.01)
    asked = await anext(questions)
    assert asked.question.text == "Go on?"
    (waiting,) = (await flows.requests.wait(task_id) or pytest.fail("it is gone")).questions
    assert asked.question.question_id == waiting.question.question_id
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(questions)


async def no_questions() -> AsyncIterator[QuestionRecord]:
    """Yield no question, and never end."""
    await asyncio.Event().wait()
    for question in tuple[QuestionRecord, ...]():
        yield question


async def numbers(*, fails: bool = False) -> AsyncIterator[int]:
    yield 1
    if fails:
        raise StoreCorrupt("it does not read back")
    yield 2


async def test_the_end_of_the_items_ends_the_wait_for_questions() -> None:
    assert [each async for each in with_questions(numbers(), no_questions())] == [1, 2]


async def test_an_error_of_the_items_is_raised() -> None:
    with pytest.raises(StoreCorrupt):
        [each async for each in with_questions(numbers(fails=True), no_questions())]


async def test_a_question_is_asked_between_items(flows: Runtime) -> None:
    task_id = TaskId("task_mine")
    await flows.start_flow(NewRun(command="one"), task_id=task_id)
    held = asyncio.Event()

    async def waits() -> AsyncIterator[int]:
        yield 1
        await held.wait()
        yield 2

    seen: list[int | str] = []
    questions = asked_below(flows, task_id, poll_seconds=0.01)
    async for item in with_questions(waits(), questions):
        seen.append(item.question.text if isinstance(item, QuestionRecord) else item)
        if item != 1:
            held.set()
    assert seen == [1, "Go on?", 2]
