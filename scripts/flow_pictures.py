"""The pictures of docs/flows.md: the board of a run, and the flow that it went through."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile, DisplayCard
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewRun, TaskReply
from penstock.cli.flow.board import CardBoard
from penstock.cli.flow.view import draw
from penstock.core.events.events import Record
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import AssistantMessage
from penstock.flows.parsing import flow_of
from penstock.flows.pictures import svg
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say, slow, spend
from penstock.testing.clock import START, FakeClock
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.python.function import tool

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FLOW = """\
name: guide
description: A page about a place
task_required: true
steps:
  - {id: sights, agent: scout, task: "The sights of ${{task}}."}
  - {id: food, agent: scout, task: "The dishes of ${{task}}."}
  - id: page
    agent: writer
    blockedBy: [sights, food]
    task: "A page about ${{task}}. To see: ${{result.sights.summary}}."
  - id: enough
    type: agent-loop-decision
    agent: critic
    task: "Is this page good enough? ${{result.page.summary}}"
    loop_target: page
    exit_target: ask
    max_iterations: 3
  - id: ask
    question: "Which languages?"
    multiSelect: true
    branches: {French: french, Spanish: spanish}
  - {id: french, agent: translator, task: "The page in French."}
  - {id: spanish, agent: translator, task: "The page in Spanish.", on_error: done}
  - {id: done, agent: writer, blockedBy: [french, spanish], task: "Say that it is done."}
"""
WIDTH, HEIGHT = 100, 27
SECONDS = 61.5
"""After which the picture is taken."""
_RUN = TaskId("task_guide")
_ELSEWHERE = re.compile(r"\s*@font-face \{.*?\n\s*\}|\s*<!--.*?-->", re.DOTALL)
"""What a picture would load or name of other places."""
_CARDS = {
    "scout": DisplayCard(card_type="research", label="Scout", metric="calls"),
    "writer": DisplayCard(card_type="writing", label="Writer"),
    "critic": DisplayCard(card_type="review", label="Critic", role="judge"),
    "translator": DisplayCard(card_type="writing", label="Translator", metric="turns"),
}


def pictures() -> Mapping[str, Callable[[], str]]:
    """Return what makes each picture, by the name of its file."""
    return {"flow-board.svg": board, "flow-graph.svg": graph}


def stale(*, is_check: bool) -> list[Path]:
    """Return the pictures that are out of date. Draw them again, unless this is only a check."""
    found = []
    for name, make in pictures().items():
        place, wanted = PICTURES / name, make()
        if not place.is_file() or place.read_text(encoding="utf-8") != wanted:
            found.append(place)
            if not is_check:
                place.parent.mkdir(exist_ok=True)
                place.write_text(wanted, encoding="utf-8")
    return found


def graph() -> str:
    """Return the flow as `penstock flow graph --svg` draws it."""
    flow = flow_of(FLOW, "flows/guide.yaml")
    assert flow is not None  # noqa: S101  FLOW is a constant of this file
    return svg(flow)


def board() -> str:
    """Return the board in the middle of a run on the scripted model."""
    console = Console(
        file=StringIO(),
        width=WIDTH,
        height=HEIGHT,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        record=True,
        _environ={},
    )
    clock = FakeClock()
    clock.advance(SECONDS)
    shown = CardBoard(console, clock, title="/guide", card_of=_CARDS.__getitem__)
    for record in asyncio.run(_happened()):
        if record.at <= START + 1000 * SECONDS:
            shown.take(record)
    shown.tick()
    console.print(draw(shown.view, console))
    made = console.export_svg(title="penstock flow run guide Lisbon", unique_id="board")
    return _ELSEWHERE.sub("", made)


async def _happened() -> Sequence[Record]:
    """Run the flow, and return everything that happened."""
    clock = FakeClock()
    place = MemoryStorage(clock=clock, flows=MemoryFlows({"flows/guide.yaml": FLOW}))
    agents = [
        Agent(name, instructions="", profile=_charter(name, card)) for name, card in _CARDS.items()
    ]
    model = ScriptedModel(_answer, clock=clock)
    async with memory_runtime(
        model=model, agents=agents, tools=[search, dictionary], place=place
    ) as runtime:
        await runtime.start_flow(NewRun(command="guide", task="Lisbon"), task_id=_RUN)
        while (reply := await _reply(runtime, clock)).questions:
            question = reply.questions[0].question
            await runtime.requests.answer(question.question_id, {"value": ["French", "Spanish"]})
        return await place.log.read(LogId(_RUN))


def _charter(name: str, card: DisplayCard) -> AgentProfile:
    tools = {"scout": ("search",), "translator": ("dictionary",)}
    return AgentProfile(file=f"agents/{name}.md", card=card, tools=tools.get(name, ()))


async def _reply(runtime: Runtime, clock: FakeClock) -> TaskReply:
    """Return the reply of the run once it has ended or waits. The clock advances meanwhile."""
    waiting = asyncio.ensure_future(runtime.requests.wait(_RUN))
    while not waiting.done():
        await clock.elapse(0.5)
    reply = waiting.result()
    assert reply is not None  # noqa: S101  it waited as long as it took
    return reply


@tool(effect="read")
async def search(words: str) -> str:
    """Search the library."""
    return f"3 pages about {words}"


@tool(effect="read")
async def dictionary(word: str) -> str:
    """Look a word up."""
    return f"{word}: mosteiro"


def _finish(summary: str, **more: str) -> ScriptedReply:
    return call("finish", status="complete", summary=summary, files=[], **more)


_PLAYS: Mapping[str, Sequence[ScriptedReply]] = {
    "sights": (
        say("Lisbon has hills, so I look for views first.") + call("search", words="viewpoints"),
        _finish("The castle, the tram 28, the monastery of Belem"),
    ),
    "dishes": (
        call("search", words="fish"),
        call("search", words="pastry"),
        _finish("Grilled sardines, custard tarts"),
    ),
    "A page about": (
        say("One page, with the tram as its thread.") + _finish("A page about Lisbon"),
    ),
    "French": (
        say("I begin with the names.") + call("dictionary", word="monastery"),
        slow(30) + _finish("La page"),
    ),
    "Spanish": (slow(40) + _finish("La pagina"),),
    "done": (_finish("Done"),),
}


def _answer(request: ModelRequest) -> ScriptedReply:
    """Answer an agent by its task; each reply takes some seconds and tokens."""
    task = next(each.content for each in request.messages if each.content.startswith("Task: "))
    turn = sum(isinstance(each, AssistantMessage) for each in request.messages)
    read = 180 * (turn + 1) + len(task)
    if "good enough" in task:
        is_first = "iteration 1 of" in task
        branch = "loop" if is_first else "exit"
        said = "No word about the food" if is_first else "It is good"
        return slow(4) + spend(read, 40) + _finish(said, branch=branch)
    replies = next(replies for key, replies in _PLAYS.items() if key in task.partition("\n")[0])
    return slow(5 + turn) + spend(read, 60 + 10 * turn) + replies[turn]
