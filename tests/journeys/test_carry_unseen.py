"""What a provider wants back is in the log and in requests, and not where people or tools read."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Agent, Hooks, ModelReply, ToolContext, tool
from penstock import open as open_project
from penstock.core.events.events import NoteEmitted
from penstock.core.ids import LogId
from penstock.server.application import create_application
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.carrying import MARKER, CarryingModel
from tests.kit.logs import events
from tests.kit.server import CHAT, HERE, served
from tests.kit.tools import Act

SEEN: list[str] = []


@tool(effect="read")
async def look(ctx: ToolContext, n: int) -> str:
    """Look at all that a tool has."""
    SEEN.append(repr([getattr(ctx, name, None) for name in dir(ctx) if name != "deps"]))
    return f"seen {n}"


class Watch(Hooks[Any]):
    """Keeps what hooks are shown of a reply."""

    async def after_reply(self, ctx: Any, reply: ModelReply) -> ModelReply:
        SEEN.append(repr(reply))
        return reply


async def test_no_answer_of_the_server_has_it() -> None:
    SEEN.clear()
    model = CarryingModel()
    agent = Agent("assistant", hooks=[Watch()])
    async with served(model=model, tools=[look], agents=[agent]) as server:
        first = await server.say("Go")
        answer = first.json()["assistantMessage"]
        conversation, task = answer["conversationId"], answer["metadata"]["taskId"]
        found = [first, await server.stream("Again", conversationId=conversation)]
        shown = {"conversationId": conversation}
        for path, query in (
            (CHAT, shown),
            (CHAT, {**shown, "view": "full"}),
            (f"{CHAT}/stream", {**shown, "last": "0", "follow": "false"}),
            (f"{CHAT}/conversations", {}),
            (f"/api/tasks/{task}", {}),
            (f"/api/tasks/{task}/events", {}),
            ("/api/agents", {}),
        ):
            found.append(await server.client.get(path, params=query))
        stream = {"accept": "text/event-stream"}
        found.append(await server.client.get(f"/api/tasks/{task}/events", headers=stream))
        log = await server.runtime.parts.storage.log.read(LogId(conversation))
    assert [each.status_code for each in found] == [200] * len(found)
    assert model.carries == [[], ["carrying"], ["carrying"] * 2, ["carrying"] * 3]
    assert repr(log).count(MARKER) == 4
    assert "Done." in found[-1].text
    assert len(SEEN) == 6
    for text in (*SEEN, *(each.text for each in found)):
        assert MARKER not in text


async def test_no_event_of_a_program_has_it() -> None:
    model = CarryingModel()
    agent = Agent("clerk", model=model)
    async with memory_runtime(agents=[agent], tools=[Act("look")]) as runtime:
        run = await runtime.start("Go", agent=agent)
        seen = [repr(event) async for event in run]
        reply = await run.reply()
        seen.append(repr(reply))
        seen.append(repr(await runtime.history(reply.session)))
    assert reply.content == "Done."
    assert len(seen) > 2
    assert MARKER not in "".join(seen)


@pytest.mark.slow("opens a project")
async def test_it_is_erased_with_its_message(tmp_path: Path) -> None:
    model = CarryingModel()
    settings: dict[str, Any] = {"models": {"default": "carrying"}, "synchronous": "NORMAL"}
    async with open_project(tmp_path, tools=[look], models=[model], settings=settings) as runtime:
        app = create_application(runtime)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            sent = (await client.post(CHAT, json={"content": "Go"})).json()
            assert _is_stored(tmp_path)
            shown = {"conversationId": sent["userMessage"]["conversationId"]}
            for message in (await client.get(CHAT, params=shown)).json()["messages"]:
                gone = await client.delete(f"{CHAT}/messages/{message['id']}")
                assert gone.status_code == 204
            assert not _is_stored(tmp_path)


def _is_stored(folder: Path) -> bool:
    files = (path for path in folder.rglob("*") if path.is_file())
    return any(MARKER.encode() in path.read_bytes() for path in files)


async def test_a_carry_of_a_megabyte_is_not_kept_and_the_next_turn_works() -> None:
    model = CarryingModel(marker="x" * 2**20)
    place = MemoryStorage()
    agent = Agent("clerk", model=model)
    async with memory_runtime(agents=[agent], tools=[Act("look")], place=place) as runtime:
        first = await runtime.chat("Go", agent=agent)
        second = await runtime.chat("Again", agent=agent, session=first.session)
        notes = [each for each in await events(runtime, first.session) if type(each) is NoteEmitted]
    assert (first.content, second.content) == ("Done.", "Done.")
    assert model.carries == [[], [], [], []]
    assert [each.event_type for each in notes] == ["carry_too_large"] * 4
    assert json.dumps(notes[0].message).count("262144") == 1
    assert len(repr(await place.log.read(LogId(first.session)))) < 2**20
