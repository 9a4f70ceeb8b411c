"""The recipes of docs/compare.md run as they are, against a provider on this machine."""

import json
from pathlib import Path

import pytest

from bench.recipes.count import FRAMEWORKS, NAMES, Count, count, counts
from tests.kit.recipes import payments_after_kill, run_recipe

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow(reason="each recipe is a program", seconds=60),
]
PEERS = [each for each in FRAMEWORKS if each != "penstock"]
DONE = {"eval": "100", "typed_output": "high", "test_refund": "1 passed"}
"""What a recipe prints in the end; the others print the last text of the model."""
SENT = {
    "tool_with_dependency": "7 has left the warehouse",
    "approval": "7 is paid back",
    "history": "I am in Oslo",
    "image": "data:image/png;base64,",
    "fallback": "gpt-5-mini",
}
"""What the last request must contain."""


@pytest.mark.parametrize("name", NAMES)
async def test_a_recipe_of_penstock_runs(name: str, tmp_path: Path) -> None:
    await _check("penstock", name, tmp_path)


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("framework", PEERS)
async def test_a_recipe_of_a_peer_runs(framework: str, name: str, tmp_path: Path) -> None:
    await _check(framework, name, tmp_path)


async def test_penstock_pays_once_after_a_kill(tmp_path: Path) -> None:
    assert await payments_after_kill("penstock", tmp_path) == 1


@pytest.mark.peers
@pytest.mark.parametrize("framework", PEERS)
async def test_a_peer_pays_again_after_a_kill(framework: str, tmp_path: Path) -> None:
    """As the page says; if this fails, it is good news for the peer: mend the page."""
    assert await payments_after_kill(framework, tmp_path) == 2


async def _check(framework: str, name: str, folder: Path) -> None:
    ran = await run_recipe(framework, name, folder)
    assert ran.status == 0, ran.output
    assert DONE.get(name, "Done.") in ran.output
    if name == "approval":
        assert "y/n" in ran.output
    if name == "test_refund":
        assert not ran.requests
        return
    assert SENT.get(name, "") in json.dumps(ran.requests[-1])
    assert len(ran.requests) >= {"sub_agent": 3, "approval": 2}.get(name, 1)


def test_penstock_needs_no_more_lines_than_the_shorter_peer_in_nine_of_ten() -> None:
    rows = counts().values()
    least = [min(row[each].lines for each in PEERS) for row in rows]
    short = [row["penstock"].lines <= wanted for row, wanted in zip(rows, least, strict=True)]
    assert (len(short), sum(short)) == (10, 9)


COUNTED = """import asyncio
from penstock import Agent, tool

# a comment

class Ticket:
    title: str

@tool(effect="read")
def find(word: str) -> str:
    return word.upper().strip()

clerk = Agent("clerk", tools=[find])
print(Ticket(title="x"), end="")
"""


def test_lines_modules_and_names_are_counted_as_the_page_says() -> None:
    """The names are Agent, tool, effect and tools; not those of Python or of the program."""
    assert count(COUNTED) == Count(9, 2, 4)
