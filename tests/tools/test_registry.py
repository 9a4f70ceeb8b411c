"""Tools by id."""

import pytest

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotFound
from penstock.core.errors import NameTaken
from penstock.tools.function import FunctionTool, tool
from penstock.tools.registry import Registry


@tool
def one(n: int) -> int:
    """Return the number."""
    return n


@tool
def two() -> None:
    """Do nothing."""


def again() -> None:
    """Do nothing under a name that is taken."""


def test_tools_come_in_the_order_they_were_given() -> None:
    registry = Registry([two, one])
    assert list(registry) == [two, one]
    assert "one" in registry
    assert registry.get("two") is two
    assert registry.find("three") is None


def test_the_effect_of_a_tool_is_known_by_its_id() -> None:
    """One that there is not does nothing."""
    registry = Registry([one, tool(effect="read")(again)])
    effects = [registry.effect_of(each) for each in ("one", "again", "three")]
    assert effects == [one.spec.effect, Effect.READ, Effect.NONE]


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ToolNotFound, match=r"no tool 'onee'\. Did you mean 'one'\?"):
        Registry([two, one]).get("onee")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(NameTaken, match="there are two tools 'one'"):
        Registry([one, FunctionTool(again, id="one")])


def test_the_same_tool_twice_is_one() -> None:
    assert list(Registry([one, one])) == [one]


def test_a_schema_is_compiled_once() -> None:
    registry = Registry([one, two])
    assert registry.schema(one) is registry.schema(one)
    assert registry.output_schema(one) is registry.output_schema(one)
    assert registry.output_schema(two) is None


def test_a_registry_with_more_tools_is_another_one() -> None:
    other = FunctionTool(again, id="one")
    registry = Registry([one])
    assert registry.plus({"one": other}).get("one") is other
    assert registry.get("one") is one
