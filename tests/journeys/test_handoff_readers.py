"""What readers see of a hand-off: streams, histories, the page, the terminal; and handing back."""

import asyncio
import io
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
import pytest
from rich.console import Console

from penstock.agents.agent import Agent, ChatSettings
from penstock.cli.terminal.render import Screen
from penstock.core.ids import ProfileId
from penstock.models.scripted import Hold, ScriptedModel, call, say, wait
from tests.kit.page import run_page
from tests.kit.server import InMemoryServer, frames, served
from tests.kit.tools import Act

CHAT = "/api/agents/triage/chat"
LINE = "⇢ billing answers from here on"


def pair() -> list[Agent]:
    billing: Agent = Agent("billing", settings=ChatSettings(max_iterations=3))
    return [Agent("triage", handoffs=[billing]), billing]


def model(*more: Any) -> ScriptedModel:
    return ScriptedModel([call("look"), call("transfer_to_billing"), say("Paid."), *more])


async def send(server: InMemoryServer, content: str, **more: Any) -> httpx2.Response:
    return await server.client.post(CHAT, json={"content": content} | more)


async def streamed(server: InMemoryServer, content: str, **more: Any) -> list[dict[str, Any]]:
    response = await send(server, content, stream=True, **more)
    return [frame for _, frame in frames(response.text)]


async def hand_back(server: InMemoryServer, name: str, headers: Any = None) -> httpx2.Response:
    return await server.client.post(f"{CHAT}/conversations/{name}/hand-back", headers=headers)


async def told() -> list[list[dict[str, Any]]]:
    """Return the frames of three messages: handed off, kept, and after it was handed back."""
    scripted = model(say("Yes."), say("I am."))
    async with served(model=scripted, agents=pair(), tools=[Act("look")]) as server:
        first = await streamed(server, "Pay")
        name = first[0]["conversationId"]
        second = await streamed(server, "Sure?", conversationId=name)
        await hand_back(server, name)
        return [first, second, await streamed(server, "Who are you?", conversationId=name)]


async def test_frames_name_the_agent_that_answers() -> None:
    first, second, third = await told()
    starts = [each[0].get("agentId") for each in (first, second, third)]
    assert starts == [None, "billing", None]
    (handed,) = [each for each in first if each["type"] == "handed_off"]
    assert handed == {
        "type": "handed_off",
        "taskId": first[0]["taskId"],
        "agentId": "billing",
        "previousAgentId": "triage",
        "model": "scripted",
    }
    thinking = [each for each in first + second if "maxIterations" in each]
    shown = [(each["iteration"], each["maxIterations"]) for each in thinking]
    assert shown == [(1, 8), (2, 8), (3, 5), (1, 3)]


async def test_a_reader_that_reconnects_gets_the_same_frames() -> None:
    async with served(model=model(), agents=pair(), tools=[Act("look")]) as server:
        whole = frames((await send(server, "Pay", stream=True)).text)
        name = whole[0][1]["conversationId"]
        for number, (last, _) in enumerate(whole[:-1]):
            again = await server.client.get(
                f"{CHAT}/stream", params={"conversationId": name}, headers={"last-event-id": last}
            )
            assert frames(again.text) == whole[number + 1 :]


async def test_a_history_names_the_agent_of_an_answer() -> None:
    async with served(model=model(say("I am.")), agents=pair(), tools=[Act("look")]) as server:
        name = (await send(server, "Pay")).headers["x-conversation-id"]
        await hand_back(server, name)
        await send(server, "Who are you?", conversationId=name)
        messages = (await server.client.get(CHAT)).json()["messages"]
    answers = [each["metadata"].get("agentId") for each in messages if each["role"] == "assistant"]
    assert answers == ["billing", None]


async def test_a_reader_of_the_conversation_sees_that_it_was_handed_back() -> None:
    """Once, also if it reconnects; a reader of one message does not."""
    async with served(model=model(say("I am.")), agents=pair(), tools=[Act("look")]) as server:
        name = (await send(server, "Pay")).headers["x-conversation-id"]
        for _ in range(2):
            await hand_back(server, name)
        only_own = await streamed(server, "Who are you?", conversationId=name)
        params = {"conversationId": name, "lastEventId": "0"}
        whole = frames((await server.client.get(f"{CHAT}/stream", params=params)).text)
    back = {"type": "handed_back", "conversationId": name, "agentId": "triage"}
    kinds = [frame["type"] for _, frame in whole]
    assert [frame for _, frame in whole if frame["type"] == "handed_back"] == [back]
    order = ("message_complete", "handed_back", "message_start")
    assert [each for each in kinds if each in order] == ["message_start", *order, order[0]]
    assert "handed_back" not in [each["type"] for each in only_own]


async def test_handing_back_twice_is_as_once() -> None:
    async with served(model=model(), agents=pair(), tools=[Act("look")]) as server:
        name = (await send(server, "Pay")).headers["x-conversation-id"]
        for _ in range(2):
            response = await hand_back(server, name)
            assert response.status_code == 200
            assert response.json() == {"conversationId": name, "agentId": "triage"}


async def test_nothing_is_handed_back_while_a_task_has_not_ended() -> None:
    hold = Hold()
    scripted = ScriptedModel([call("transfer_to_billing"), wait(hold) + say("Paid.")])
    async with served(model=scripted, agents=pair()) as server:
        sent = (await server.client.post(f"{CHAT}/conversations")).json()["id"]
        running = asyncio.create_task(send(server, "Pay", conversationId=sent))
        await hold.reached()
        refused = await hand_back(server, sent)
        hold.release()
        await running
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONVERSATION_BUSY")


async def test_only_its_profile_hands_a_conversation_back() -> None:
    async with served(model=model(), agents=pair(), tools=[Act("look")]) as server:
        keys = server.database_parts.keys
        made = [await keys.create(each) for each in ("ann", "bob")]
        made.append(await keys.create("eve", profile_id=ProfileId("ann"), permissions=["read"]))
        ann, bob, reader = [{"authorization": f"Bearer {key}"} for key in made]
        sent = await server.client.post(CHAT, json={"content": "Pay"}, headers=ann)
        name = sent.headers["x-conversation-id"]
        asked = [(name, bob), (name, reader), ("conv_none", ann), (name, ann)]
        codes = [(await hand_back(server, *each)).status_code for each in asked]
        other = await server.client.post(
            f"/api/agents/billing/chat/conversations/{name}/hand-back", headers=ann
        )
    assert codes == [404, 403, 404, 200]
    assert other.status_code == 404


BACK = {"type": "handed_back", "conversationId": "c", "agentId": "triage"}
FIRST = "The agent that this conversation started with"


@pytest.mark.parametrize(("back", "name"), [([], FIRST), ([BACK], "triage")])
async def test_a_terminal_shows_each_change_of_the_agent_once(back: list[Any], name: str) -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80))
    first, second, third = await told()
    for frame in chain(first, second, back, third, third, first):
        screen.show(frame)
    lines = [line for line in output.getvalue().splitlines() if line.startswith("⇢")]
    assert lines == [LINE, f"⇢ {name} answers from here on", LINE]


@pytest.mark.programs
@pytest.mark.slow("starts deno")
async def test_the_page_shows_each_change_of_the_agent_once(tmp_path: Path) -> None:
    first, second, third = await told()
    whole = chain(first, second, [BACK], third, third)
    said = [[f"{number}", each] for number, each in enumerate(whole)]
    (items,) = run_page(tmp_path, {"said": said, "looks": [{}]})["shown"]
    kinds = [
        (each["kind"], each.get("agent")) for each in items if each["kind"] in {"agent", "text"}
    ]
    assert kinds == [
        ("agent", "billing"),
        ("text", None),
        ("text", None),
        ("agent", "triage"),
        ("text", None),
        ("text", None),
    ]


RECALL = """
import {{ newView, recall }} from "{folder}/view.js";
const view = newView();
for (const message of {given}) recall(view, message);
console.log(JSON.stringify({{ shown: view.items.map((each) => each.agent ?? each.kind) }}));
"""


@pytest.mark.programs
@pytest.mark.slow("starts deno")
async def test_the_page_shows_the_agents_of_a_history(tmp_path: Path) -> None:
    async with served(model=model(say("Yes.")), agents=pair(), tools=[Act("look")]) as server:
        name = (await send(server, "Pay")).headers["x-conversation-id"]
        await send(server, "Sure?", conversationId=name)
        messages = (await server.client.get(CHAT)).json()["messages"]
    shown = run_page(tmp_path, messages, RECALL)["shown"]
    calls = ["user", "call", "call", "billing", "text", "end"]
    assert shown == [*calls, "user", "text", "end"]
