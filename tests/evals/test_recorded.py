"""Recorded tasks as cases."""

from pathlib import Path
from typing import Any

import pytest

from penstock import Agent, tool
from penstock.core.errors import ConfigError
from penstock.evals.dataset import Dataset
from penstock.evals.recorded import add_case, case_of
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.testing.runtime import memory_runtime


@tool(effect="none")
def label(severity: str) -> str:
    """Label a ticket."""
    return severity


async def test_a_task_becomes_a_case_with_its_message_its_answer_and_its_calls() -> None:
    model = ScriptedModel([call("label", severity="high"), say("fire")])
    async with memory_runtime(model=model) as runtime:
        reply = await runtime.chat("It\nburns", agent=Agent("clerk", tools=[label]))
        case = await case_of(runtime, reply.task_id)
    assert case == {
        "name": "It burns",
        "input": "It\nburns",
        "expected": "fire",
        "scorers": ["equal", {"called_tool": {"tool": "label", "input": {"severity": "high"}}}],
    }


async def test_a_task_that_failed_is_no_case() -> None:
    async with memory_runtime(model=ScriptedModel({"": fail(400)})) as runtime:
        reply = await runtime.chat("Hello")
        with pytest.raises(ConfigError, match="is failed: a case is made of one that succeeded"):
            await case_of(runtime, reply.task_id)


def test_a_case_is_appended_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "new" / "cases.yaml"
    add_case(file, case("a"))
    text = "# ours\n" + file.read_text()
    file.write_text(text)
    add_case(file, case("b", "two\nlines: yes"))
    assert file.read_text().startswith(text)
    dataset = Dataset.from_file(file)
    assert [(each.name, each.input) for each in dataset.cases] == [
        ("a", "Hello"),
        ("b", "two\nlines: yes"),
    ]


FILES = {
    "cases: [{name: x, input: y}]\n": "cannot be appended; add it by hand",
    "cases:\n  - {name: x, input: y}\nagent: clerk\n": "cannot be appended; add it by hand",
    "cases:\n  - {name: a, input: y}\n": "has a case named 'a'",
}


@pytest.mark.parametrize("text", FILES)
def test_a_file_that_cannot_take_the_case_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=FILES[text]):
        add_case(file, case("a"))
    assert file.read_text() == text


def case(name: str, message: str = "Hello") -> dict[str, Any]:
    """Return a case as `case_of` does."""
    return {"name": name, "input": message, "expected": "Hi", "scorers": ["equal"]}
