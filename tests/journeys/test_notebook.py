"""A notebook: its kernel runs an event loop, in which `open_sync` and `await` both work."""

import ast
import json
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.programs, pytest.mark.slow("starts a kernel")]
DEFINE = """
from penstock import Agent, open_sync, tool

@tool
def area(width: float, height: float) -> float:
    "Return the area of a rectangle."
    return width * height

clerk = Agent("clerk", instructions="Answer with areas.", tools=[area])
"""
OPEN = 'runtime = open_sync(":memory:")'
CHAT = """
import asyncio
asyncio.get_running_loop()
reply = runtime.chat("area width=2 height=3", agent=clerk)
[call.output for call in reply.calls]
"""
STREAM = """
run = runtime.start("Hello", agent=clerk)
"".join(run.text()) == run.reply().output
"""
SHOW = "reply"
ASYNC = """
import penstock
other = await penstock.open(":memory:")
status = (await other.chat("Hello")).status
await other.close()
status
"""
CLOSE = "runtime.close()"
LIVE = """
live = runtime.start("area width=2 height=3", agent=clerk)
live
"""
LIVE_ASYNC = """
import asyncio
from IPython.display import display
other = await penstock.open(":memory:")
run = await other.start("Hello")
display(run)
views = [each for each in asyncio.all_tasks() if each.get_name() == "penstock-live-view"]
await asyncio.gather(*views)
content = (await run.reply()).content
await other.close()
(len(views), content)
"""


async def test_a_notebook_uses_the_sync_and_the_async_runtime(tmp_path: Path) -> None:
    """The cell that defines the agent runs twice, as people run cells again."""
    shown = await outputs_of(
        [DEFINE, OPEN, CHAT, DEFINE, CHAT, STREAM, SHOW, ASYNC, CLOSE], tmp_path
    )
    texts = [each.get("text/plain") for each in shown]
    assert texts[:3] == ["[6.0]", "[6.0]", "True"]
    assert "6.0" in shown[3]["text/markdown"]
    assert texts[4] == "'succeeded'"


async def test_a_run_shows_itself_while_it_works(tmp_path: Path) -> None:
    """In the end the display of a run has its last state.

    The client of this test reads updates while their cell runs; a notebook in a browser reads them
    later, too.
    """
    cells = [DEFINE, OPEN, LIVE, ASYNC, LIVE_ASYNC, CLOSE]
    sync, _, live, text = await outputs_of(cells, tmp_path)
    assert '- `area {"width":2,"height":3}` success' in sync["text/markdown"]
    assert "6.0" in sync["text/markdown"]
    (count, content) = ast.literal_eval(text["text/plain"])
    assert (count, live["text/markdown"]) == (1, content)


async def outputs_of(cells: list[str], tmp_path: Path) -> list[Any]:
    """Run a notebook; return what its cells show."""
    code: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    written = [code | {"id": f"cell-{n}", "source": source} for n, source in enumerate(cells)]
    about = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    notebook: Any = cast("Any", nbformat).reads(json.dumps(about | {"cells": written}), 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources)
    await client.async_execute()
    return [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
