"""Names of tools in the form that providers take: fitting, stable, one for one, and back."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.messages import Usage
from penstock.models.model import CallDelta, Finished, ModelRequest, TextDelta, ToolDefinition
from penstock.models.wires.wire_names import WireNames

FORM = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def names(*tools: str) -> WireNames:
    """Return the names of a request that offers these tools."""
    offered = [ToolDefinition(name=each, description="d", parameters={}) for each in tools]
    return WireNames(ModelRequest(system="", messages=[], tools=offered))


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("find", "find"),
        ("shop_find-2", "shop_find-2"),
        ("x" * 64, "x" * 64),
        ("shop.find", "shop_find_011b6005"),
        ("my tool!", "my_tool_96caa15f"),
        ("x" * 200, "x" * 55 + "_aa20c23e"),
        ("9lives", "_9lives_bc867356"),
        ("-", "_-_3973e022"),
        ("", "tool_e3b0c442"),
        ("…", "tool_b4935894"),
        ("\ud800", "tool_91a681b9"),
        ("naïve", "na_ve_f86fd89d"),
    ],
)
def test_a_name_is_sent_unchanged_or_shortened_with_a_digest(name: str, sent: str) -> None:
    assert names().sent(name) == sent
    assert FORM.fullmatch(sent)


def test_a_dot_and_an_underscore_are_two_tools() -> None:
    table = names("shop.find", "shop_find")
    assert table.sent("shop_find") == "shop_find"
    assert table.sent("shop.find") != "shop_find"


@pytest.mark.parametrize("others", [(), ("shop_find",), ("a", "b.c", "shop find")])
def test_the_sent_name_does_not_depend_on_the_other_tools(others: tuple[str, ...]) -> None:
    """A tool that joins later must not rename those that a provider has in its cache."""
    assert names(*others, "shop.find").sent("shop.find") == names().sent("shop.find")


def test_a_taken_name_gets_more_digits() -> None:
    taken = names().sent("shop.find")
    table = names("shop.find", taken)
    assert table.sent(taken) == taken
    assert table.sent("shop.find")[:-1] == taken
    assert heard(table, table.sent("shop.find")) == "shop.find"


def test_a_fitting_name_of_the_history_gives_way_to_an_offered_tool() -> None:
    table = names("shop.find")
    taken = table.sent("shop.find")
    assert table.sent(taken) != taken
    assert heard(table, taken) == "shop.find"


def heard(table: WireNames, name: str) -> str:
    """Return the name of a call in a reply."""
    event = table.meant(CallDelta(0, name, "{}"))
    assert isinstance(event, CallDelta)
    assert (event.index, event.arguments) == (0, "{}")
    return event.name


@pytest.mark.parametrize("name", ["find", "shop.find", "no such tool"])
def test_a_name_that_was_not_sent_is_returned_unchanged(name: str) -> None:
    """Small servers let a model write any name: the true one is understood, too."""
    assert heard(names("shop.find"), name) == name


@pytest.mark.parametrize(
    "event", [TextDelta("shop_find"), CallDelta(0, "", "{}"), Finished("stop", Usage())]
)
def test_other_events_pass(event: Any) -> None:
    assert names("shop.find").meant(event) is event


@given(st.lists(st.text(max_size=80), unique=True, max_size=8))
def test_each_name_maps_to_a_unique_one_and_back(found: list[str]) -> None:
    table = names(*found)
    sent = [table.sent(each) for each in found]
    assert len(set(sent)) == len(found)
    assert all(map(FORM.fullmatch, sent))
    assert [heard(table, each) for each in sent] == found
