"""The page that follows one call and one chat turn, compared with recorded ones."""

import asyncio
import re
from pathlib import Path

import pytest

import penstock
from penstock import Agent
from penstock.cli.authoring.init import init
from penstock.cli.project import opened
from penstock.cli.terminal.timeline import Trace
from penstock.models.scripted import ScriptedModel, call, say

pytestmark = pytest.mark.conformance

PAGE = Path(penstock.__file__).parents[1] / "docs" / "first-hour.md"


def named_hops(page: str) -> list[str]:
    return re.findall(r"^(?:\d+\.|\| \w+ \|) `([\w/]+\.\w+)`", page, re.MULTILINE)


def test_the_page_names_hops_of_a_call_in_their_order(tmp_path: Path) -> None:
    init(tmp_path)
    trace = Trace()

    async def make_call() -> None:
        async with opened(tmp_path) as runtime:
            with trace.watch():
                assert (await runtime.call("hello", {"name": "Ann"})).ok

    asyncio.run(make_call())
    named = named_hops(PAGE.read_text().partition("## A chat turn")[0])
    assert len(named) >= 15
    # an event that this process wrote is folded when the bus delivers it: before or after `run`
    free = {"engine/session_state.fold"}
    assert set(named) <= set(trace.hops)
    assert [hop for hop in named if hop not in free] == [
        hop for hop in trace.hops if hop in named and hop not in free
    ]


async def test_the_page_names_hops_of_a_chat_turn_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").touch()

    @penstock.tool
    async def look() -> str:
        """Look."""
        return "Nothing."

    model = ScriptedModel([call("look"), say("Nothing is there.")])
    clerk = Agent("clerk", instructions="You look.", tools=[look], model=model)
    named = named_hops(PAGE.read_text().partition("## A chat turn")[2])
    trace = Trace(named)
    async with penstock.open(tmp_path, agents=[clerk]) as runtime:
        with trace.watch():
            reply = await runtime.chat("Look.", agent="clerk")
    assert (reply.status, len(named)) == ("succeeded", 11)
    assert trace.hops == named
