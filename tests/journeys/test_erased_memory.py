"""After an erase returns, no text of it is in the memory of a process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import ToolContext, tool
from penstock import open as open_project
from penstock.core.ids import ProfileId
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from penstock.testing.clock import settle
from tests.kit.memory_search import holders
from tests.kit.server import CHAT, CLOCK, HERE, InMemoryServer

pytestmark = [
    pytest.mark.slow("looks at every object of the process"),
    pytest.mark.programs,  # next to other tests the process has millions of objects
]
PARTS = ("pine", "apple", "9d2c")
"""The word is put together when it is wanted: else the tests themselves would have it."""


def word() -> str:
    return "".join(PARTS)


@tool
async def hoard(ctx: ToolContext) -> dict[str, Any]:
    """Leave the word everywhere a tool can."""
    await ctx.state.put("k", word())
    await ctx.state.session.put("k", word() * 4000)
    ctx.emit("noted", word(), {"text": word()})
    await ctx.workspace.write("session://note.txt", word().encode())
    await ctx.artifacts.put(word().encode(), "text/plain", "note.txt")
    inner = await ctx.call("refuse", {})
    answer = await ctx.ask(f"Really {word()}?", options=[word(), "no"])
    return {"answer": answer, "text": word() * 4000, "error": inner.error and inner.error.message}


@tool
async def refuse() -> None:
    """Fail with the word in the message."""
    raise ValueError(word())


class Talk:
    """A conversation in which every party used the word."""

    def __init__(self, server: InMemoryServer, model: ScriptedModel) -> None:
        self.server = server
        self._model = model
        self.conversation = ""
        self.messages: list[str] = []

    async def hold(self) -> None:
        """Have it to its end; this keeps its ids alone."""
        server = self.server
        waiting = (await server.say(f"Keep {word()}")).json()
        (question,) = waiting["suspended"]["questions"]
        answered = f"/api/questions/{question['id']}/answer"
        assert (await server.client.post(answered, json={"answer": word()})).is_success
        await server.runtime.requests.wait(waiting["taskId"])
        self.conversation = waiting["conversationId"]
        shown = {"conversationId": self.conversation}
        history = (await server.client.get(CHAT, params=shown)).json()
        self.messages = [each["id"] for each in history["messages"]]

    async def delete(self, path: str) -> None:
        gone = await self.server.client.delete(f"{CHAT}{path}")
        assert gone.status_code == 204, gone.text

    def forget(self) -> None:
        """Drop what the fake of the model was asked."""
        self._model.requests.clear()

    async def left(self) -> list[str]:
        """Return the objects that hold the word, except the fake model."""
        await settle()
        self.forget()
        return holders(word())

    async def left_after_sweeps(self) -> list[str]:
        """Return what has the word, once that is nothing, or after ten looks.

        A look holds the event loop for seconds in a large process, so sweeps run between looks.
        """
        left = await self.left()
        for _ in range(9):
            if left:
                await CLOCK.sleep(0.3)
                left = await self.left()
        return left


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[Talk]:
    model = ScriptedModel([call("hoard"), say("Kept.")])
    settings: dict[str, Any] = {"models": {"default": model.card.model_id}}
    settings |= {"synchronous": "NORMAL", "limits": {"sweep_seconds": 0.05}}
    async with open_project(
        root, tools=[hoard, refuse], models=[model], settings=settings
    ) as runtime:
        app = create_application(runtime)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            talk = Talk(InMemoryServer(app, runtime, client), model)
            await talk.hold()
            yield talk


async def test_the_word_is_in_memory_before_erasing(tmp_path: Path) -> None:
    """Else nothing below could fail."""
    async with opened(tmp_path) as talk:
        assert any("TaskState" in each for each in await talk.left())


async def test_erasing_both_messages_removes_the_word(tmp_path: Path) -> None:
    """The state and the file of the conversation are on disk alone."""
    async with opened(tmp_path) as talk:
        for message_id in talk.messages:
            await talk.delete(f"/messages/{message_id}")
        assert await talk.left() == []


@pytest.mark.parametrize("way", ["conversation", "agent"])
async def test_deleting_conversations_removes_the_word(tmp_path: Path, way: str) -> None:
    async with opened(tmp_path) as talk:
        await talk.delete(f"/conversations/{talk.conversation}" if way == "conversation" else "")
        assert await talk.left() == []


async def test_erasing_a_profile_removes_the_names_of_its_secrets(tmp_path: Path) -> None:
    """A compiled statement keeps the values that it was first used with."""
    async with opened(tmp_path) as talk:
        await talk.delete("")
        kept = f"/api/vault/profile/me/{word()}"
        assert (await talk.server.client.put(kept, json={"value": "s3cret-s3cret"})).is_success
        assert await talk.left() != []
        await talk.server.database_parts.erasure.erase_profile(ProfileId("local"))
        assert await talk.left() == []


@pytest.mark.parametrize("way", ["messages", "conversation", "profile"])
async def test_a_sweep_removes_data_erased_by_another_process(tmp_path: Path, way: str) -> None:
    """As by `penstock erase` while a server runs."""
    async with opened(tmp_path) as talk, opened(tmp_path) as other:
        if way == "profile":
            await other.server.database_parts.erasure.erase_profile(ProfileId("local"))
        elif way == "conversation":
            await other.delete("")
        else:
            for message_id in (*talk.messages, *other.messages):
                await other.delete(f"/messages/{message_id}")
        other.forget()
        assert await talk.left_after_sweeps() == []
