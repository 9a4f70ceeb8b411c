"""Recorded tasks as cases."""

from pathlib import Path
from typing import Any

import pytest

from penstock import Agent, Image, ToolContext, tool
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.ids import QuestionId
from penstock.evals.case import Case
from penstock.evals.dataset import Dataset
from penstock.evals.recorded import add_case, case_of
from penstock.evals.run import evaluate
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, fail, say
from penstock.testing.runtime import memory_runtime
from tests.kit import sample_files


@tool(effect="none")
def label(severity: str) -> str:
    """Label a ticket."""
    return severity


async def test_a_task_becomes_a_case_with_its_message_its_answer_and_its_calls() -> None:
    model = ScriptedModel([call("label", severity="high"), say("fire")])
    async with memory_runtime(model=model) as runtime:
        reply = await runtime.chat("It\nburns", agent=Agent("clerk", tools=[label]))
        agent, case = await case_of(runtime, reply.task_id)
    assert agent == "clerk"
    assert case == {
        "name": "It burns",
        "input": "It\nburns",
        "expected": "fire",
        "scorers": ["equal", {"called_tool": {"tool": "label", "input": {"severity": "high"}}}],
    }


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"{amount} paid"


@tool(effect="read")
async def choose(ctx: ToolContext) -> str:
    """Ask where to go, and whether it is urgent."""
    where = await ctx.ask("Where to?", options=["Tokyo", "Home"])
    why = await ctx.ask("Why?")
    return f"to {where}: {why}"


GRANTED: dict[str, Any] = {"decision": "approve"}
REJECTED = {"decision": "reject", "note": "no"}
WHERE, WHY = {"value": "Home"}, {"text": "It is late."}
GIVEN: dict[str, tuple[ScriptedReply, list[dict[str, Any]], dict[str, Any]]] = {
    "granted": (call("pay", amount=1), [GRANTED], {"approve": True}),
    "granted twice": (
        call("pay", amount=1) + call("pay", amount=2),
        [GRANTED, GRANTED],
        {"approve": True},
    ),
    "rejected": (call("pay", amount=1), [REJECTED], {"answers": [REJECTED]}),
    "with an edited input": (
        call("pay", amount=1),
        [GRANTED | {"input": {"amount": 2}}],
        {"answers": [GRANTED | {"input": {"amount": 2}}]},
    ),
    "of two, one rejected": (
        call("pay", amount=1) + call("pay", amount=2),
        [GRANTED, REJECTED],
        {"answers": [GRANTED, REJECTED]},
    ),
    "answered": (call("choose"), [WHERE, WHY], {"answers": [WHERE, WHY]}),
}


@pytest.mark.parametrize(("asking", "given", "members"), GIVEN.values(), ids=list(GIVEN))
async def test_a_case_gets_the_answers_that_the_task_got(
    asking: ScriptedReply, given: list[dict[str, Any]], members: dict[str, Any]
) -> None:
    """An attempt with them takes the same way, without a person."""
    model = ScriptedModel({"Pay": [asking, say("ok")]})
    agent = Agent("cashier", tools=[pay, choose])
    async with memory_runtime(model=model) as runtime:
        reply, left = await runtime.chat("Pay", agent=agent), given
        while reply.questions:
            # of several at once, a person may answer any one first
            for question, answer in reversed(list(zip(reply.questions, left, strict=False))):
                await runtime.requests.answer(QuestionId(question.id), answer)
            left = left[len(reply.questions) :]
            reply = await runtime.wait(reply)
        _, case = await case_of(runtime, reply.task_id)
        assert {each: case[each] for each in ("answers", "approve") if each in case} == members
        again = Case(**{name: value for name, value in case.items() if name != "scorers"})
        report = await evaluate(Dataset("again", [again]), agent=agent, runtime=runtime)
        assert not await runtime.questions()
        (attempt,) = report.attempts
        assert attempt.passed, attempt
        second = await runtime.attach(attempt.task_id).reply()
    outcomes = [
        [(each.input, each.output, each.error) for each in it.calls] for it in (reply, second)
    ]
    assert outcomes[0] == outcomes[1]


async def test_a_task_that_was_handed_off_is_a_case_of_the_agent_that_was_asked() -> None:
    expert = Agent("expert", tools=(), description="Knows all.")
    desk = Agent("desk", tools=(), handoffs=[expert])
    model = ScriptedModel([call("transfer_to_expert"), say("42")])
    async with memory_runtime(model=model) as runtime:
        reply = await runtime.chat("What?", agent=desk)
        agent, _ = await case_of(runtime, reply.task_id)
    assert (reply.agent, agent) == ("expert", "desk")


async def test_a_task_that_failed_is_no_case() -> None:
    async with memory_runtime(model=ScriptedModel({"": fail(400)})) as runtime:
        reply = await runtime.chat("Hello")
        with pytest.raises(ConfigError, match="is failed: a case is made of one that succeeded"):
            await case_of(runtime, reply.task_id)


def test_a_case_is_appended_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "new" / "cases.yaml"
    add_case(file, "clerk", case("a"))
    text = "# ours\n" + file.read_text()
    file.write_text(text)
    add_case(file, "clerk", case("b", "two\nlines: yes"))
    assert file.read_text().startswith(text)
    dataset = Dataset.from_file(file)
    assert dataset.agent == "clerk"
    assert [(each.name, each.input) for each in dataset.cases] == [
        ("a", "Hello"),
        ("b", "two\nlines: yes"),
    ]


def test_a_file_keeps_its_line_endings(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    before = b"agent: clerk\r\ncases:\r\n- name: a\r\n  input: Hi\r\n"
    file.write_bytes(before)
    add_case(file, "clerk", case("b"))
    after = file.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n")


FILES = {
    "agent: clerk\ncases: [{name: x, input: y}]\n": "cannot be appended; add it by hand",
    "cases:\n  - {name: x, input: y}\nagent: clerk\n": "cannot be appended; add it by hand",
    "agent: clerk\ncases:\n  - {name: a, input: y}\n": "has a case named 'a'",
    "agent: other\ncases:\n  - {name: b, input: y}\n": "asks the agent 'other', but the task is",
    "cases:\n  - {name: b, input: y}\n": "asks the agent 'assistant', but the task is one of",
}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("cases.jsonl", b"", "must end in .yaml or .yml: a case is appended as YAML"),
        ("cases.yaml", b"agent: [", r"cases.yaml:1:9: error yaml-syntax: not valid YAML"),
        ("cases.yml", b"agent: \xff", "cannot read .*cases.yml: 'utf-8' codec"),
        ("none/cases.yaml", b"", "cannot write .*cases.yaml: "),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_its_problem(
    tmp_path: Path, name: str, text: bytes, problem: str
) -> None:
    (tmp_path / "none").touch()
    file = tmp_path / name
    if text:
        file.write_bytes(text)
    with pytest.raises(PenstockError, match=problem):
        add_case(file, "clerk", case("a"))
    assert file.exists() is bool(text)


async def test_a_message_with_files_is_no_case() -> None:
    picture = Image(sample_files.image())
    async with memory_runtime(model=ScriptedModel([say("A dot.")])) as runtime:
        reply = await runtime.chat(["What is this?", picture])
        with pytest.raises(ConfigError, match="has files, which a file of cases cannot hold"):
            await case_of(runtime, reply.task_id)


@pytest.mark.parametrize("text", FILES)
def test_a_file_that_cannot_take_the_case_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=FILES[text]):
        add_case(file, "clerk", case("a"))
    assert file.read_text() == text


def case(name: str, message: str = "Hello") -> dict[str, Any]:
    """Return a case as `case_of` does."""
    return {"name": name, "input": message, "expected": "Hi", "scorers": ["equal"]}
