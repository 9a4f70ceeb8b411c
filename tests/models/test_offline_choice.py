"""Which tools the offline model takes a message to mean."""

from typing import Any

import pytest

from penstock.models.model import ToolDefinition
from penstock.models.offline_choice import (
    asks_for_any,
    asks_for_list,
    best_match,
    harmless_without_input,
    mentioned,
    stem,
)


def tool(name: str, description: str, **parameters: Any) -> ToolDefinition:
    return ToolDefinition(name=name, description=description, parameters=parameters)


TOOLS = [
    tool("add", "Add two numbers.", required=["a", "b"]),
    tool("add_all", "Add a list of numbers.", required=["numbers"]),
    tool("search_knowledge", "Search the documents.", required=["query"]),
    tool("browse_url", "Read a web page as Markdown.", required=["url"]),
    tool("reset", "Forget everything."),
    tool("get_schedule_info", "Say when things run.", properties={"id": {"type": "string"}}),
    tool("moon", "Tell the phase of the moon.", properties={}),
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("add 1 and 2", ["add"]),
        ("please ADD 1, 2; then search-knowledge for x", ["add", "search_knowledge"]),
        ("add all of 1 2 3", ["add_all"]),
        ("call `moon`.", ["moon"]),
        ("addition is hard", []),
        ("the address", []),
        ("my.add", []),
    ],
)
def test_tools_are_known_by_name(text: str, names: list[str]) -> None:
    assert [mention.tool.name for mention in mentioned(text, TOOLS)] == names


def test_each_named_tool_gets_its_part_of_the_message() -> None:
    found = mentioned("Now add 1 2 then add 3 4", TOOLS)
    assert [(each.before, each.text) for each in found] == [("Now ", " 1 2 then "), ("", " 3 4")]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("what do the documents say, search them", "search_knowledge"),
        ("open https://example.com", "browse_url"),
        ("which phase has the moon tonight?", "moon"),
        ("what is on the schedule?", "get_schedule_info"),
        ("hello", None),
        ("thanks, good work", None),
        ("", None),
        ("numbers, numbers", None),
    ],
)
def test_the_best_description_counts_if_it_is_clear(text: str, name: str | None) -> None:
    match = best_match(text, TOOLS)
    assert (match.tool.name if match else None) == name


@pytest.mark.parametrize(
    "text",
    ["what can you do?", "Help!", "which tools are there", "list all the tools", "your tools?"],
)
def test_asking_for_the_list(text: str) -> None:
    assert asks_for_list(text)


@pytest.mark.parametrize(
    "text", ["try a tool", "use one of your nice tools", "call any tool", "demo"]
)
def test_asking_for_any_tool(text: str) -> None:
    assert asks_for_any(text)


@pytest.mark.parametrize("text", ["hello", "what is the toolbox price", "helpless", "a retool"])
def test_not_asking_for_tools(text: str) -> None:
    assert not asks_for_list(text)
    assert not asks_for_any(text)


def test_the_tried_tool_needs_no_input_is_fast_and_undoes_nothing() -> None:
    slow = [tool("plan", "Ask the person for a city."), tool("slow_report", "Write.")]
    found = harmless_without_input([*TOOLS[:5], *slow, *TOOLS[5:]])
    assert found is not None
    assert found.name == "get_schedule_info"
    assert harmless_without_input([*TOOLS[:5], *slow]) == slow[1]
    assert harmless_without_input(TOOLS[:5]) is None


def test_stems() -> None:
    assert {stem("schedules"), stem("schedule"), stem("scheduling")} == {"schedul"}
    assert stem("is") == "is"
