"""A program as people write it: both type checkers take each line, and it runs."""

from typing import Any, assert_type

import pytest

from penstock import Agent, Event, Reply, Run, Text, ToolReturned, tool
from penstock.core.call import Effect
from penstock.core.envelope import Envelope
from penstock.core.errors import DeclarationError
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.invocation import open_workbench
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.given_tools import all_as_tools, as_tool


@tool(effect="none", direct_call=True)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def plain(word: str) -> str:
    """Return a word; a function without @tool counts as a write."""
    return word


class Shop:
    """Something with tools of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(effect="read")
    def find(self, word: str) -> str:
        """Find something in the shop."""
        return f"{self.name}: {word}"


async def test_a_program_is_typed_and_runs() -> None:
    shop = Shop("books")
    assert_type(double(2), int)
    assert_type(shop.find("a"), str)
    calls = call("find", word="a") + call("plain", word="b") + call("greet", name="Ann")
    model = ScriptedModel([calls, say("Done"), say("Again"), say("Done")])
    agent = Agent("clerk", model=model, tools=[double, greet, plain, shop.find])
    async with memory_runtime(model=model, tools=[double, plain], agents=[agent]) as runtime:
        envelope = await runtime.call("double", {"number": 2})
        assert_type(envelope, Envelope)
        reply = await runtime.chat("Go", agent="clerk")
        assert_type(reply, Reply[str])
        assert_type(reply.output, str)
        again = await runtime.chat("Go", agent=agent, session=reply.session)
        run = await runtime.start("Go", agent="clerk", session=again.session)
        assert_type(run, Run[str])
        said = [event async for event in run if isinstance(event, Text | ToolReturned)]
        assert_type(said, list[Text | ToolReturned])
        async for event in run:
            assert_type(event, Event)
        assert_type(await run.reply(), Reply[str])
    read = [str(each) for each in model.requests[1].messages]
    assert envelope.output == 4
    assert reply.content == "Done"
    assert all(any(said in each for each in read) for said in ("books: a", "'b'", "Hello, Ann!"))


class Till:
    """An object whose methods are tools."""

    def __init__(self, currency: str) -> None:
        self.currency = currency

    @tool(effect="read")
    async def price(self, drink: str) -> str:
        """Return a price."""
        return f"{drink}: 3 {self.currency}"

    @classmethod
    @tool(effect="none", id="kinds")
    def list_kinds(cls) -> str:
        """Return the kinds."""
        return cls.__name__

    @staticmethod
    @tool(effect="none")
    def noop() -> None:
        """Do nothing."""


async def test_methods_are_tools_of_their_object() -> None:
    euros, yen = Till("euros"), Till("yen")
    assert await euros.price("tea") == "tea: 3 euros"
    bench = await open_workbench(yen.price, as_tool(yen.list_kinds), yen.noop)
    assert (await bench.call("price", {"drink": "tea"})).output == "tea: 3 yen"
    assert (await bench.call("kinds")).output == "Till"
    assert (await bench.call("noop")).ok
    assert list(yen.price.spec.input_schema["properties"]) == ["drink"]
    assert yen.price.spec.effect is Effect.READ


def test_the_error_of_an_unbound_method_explains_how_to_bind_it() -> None:
    with pytest.raises(DeclarationError, match=r"it is a method of a class; pass a bound one"):
        _ = Till.price.spec


def test_a_decorator_in_the_wrong_order_is_named() -> None:
    wrong: Any = vars(Till)["list_kinds"]
    with pytest.raises(TypeError, match="write @classmethod above it"):
        tool(wrong)


def test_a_plain_function_becomes_a_tool_that_writes() -> None:
    def pay(euros: int) -> str:
        """Pay."""
        return f"{euros}"

    assert as_tool(greet) is greet
    assert as_tool(pay).spec.effect is Effect.WRITE


@pytest.mark.parametrize("given", [greet, len, 3])
def test_one_tool_that_is_in_no_list_is_refused_with_the_form_to_write(given: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a list, such as tools=\[area\]; found"):
        Agent("assistant", tools=given)
    with pytest.raises(TypeError, match="takes a list"):
        all_as_tools(given)


NO_TOOL = "tools= takes functions, with @tool above them or not"


@pytest.mark.parametrize("given", ["look_up", 3, Till, Till("x"), None, {"name": "x"}])
def test_an_invalid_tool_is_refused_at_its_argument(given: Any) -> None:
    with pytest.raises(TypeError, match=NO_TOOL):
        as_tool(given)
    if not isinstance(given, str):
        with pytest.raises(TypeError, match=NO_TOOL):
            Agent("assistant", tools=[given])
