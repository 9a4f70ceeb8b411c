"""An erase removes a word from every file and every table, whatever tools did with it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from msgspec.structs import replace
from psycopg.sql import SQL, Identifier

from penstock import Hooks, ToolContext, tool
from penstock import open as open_project
from penstock.core.ids import LogId, ProfileId
from penstock.engine.session_state import fold
from penstock.engine.snapshot import fold_version, to_snapshot
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from penstock.store.logs.log import StoredState
from tests.kit.server import CHAT, HERE, InMemoryServer

SAID, SESSION, PROFILE = "pineapple-7f3a", "mango-51c9", "papaya-e802"
WORDS = (SAID, SESSION, PROFILE)
QUESTIONS = "/api/questions"
ASKED = f"Keep {SAID}"


@tool
async def hoard(ctx: ToolContext, word: str) -> dict[str, Any]:
    """Leave a word everywhere a tool can."""
    state = ctx.state
    await state.put("k", word)
    await state.put("large", word * 4000)
    ctx.emit("noted", word, {"text": word})
    ctx.progress(1, 2, word)
    await ctx.workspace.write("task://note.txt", f"{word} in the task".encode())
    await ctx.workspace.write("session://note.txt", f"{SESSION} in a file".encode())
    await state.session.put("k", SESSION)
    await state.profile.put("k", PROFILE)
    await ctx.artifacts.put(f"{word} in an artifact".encode(), "text/plain", "note.txt")
    inner = await ctx.call("refuse", {"word": word})
    answer = await ctx.ask(f"Really {word}?", options=[word, "no"])
    return {"answer": answer, "text": word * 4000, "error": inner.error and inner.error.message}


@tool
async def refuse(word: str) -> None:
    """Fail with the word in the message."""
    raise ValueError(f"not {word}")


class Place:
    """A project, its database, and a client."""

    def __init__(self, server: InMemoryServer, folder: Path, postgres: str | None) -> None:
        self.server = server
        self.client = server.client
        self.erasure = server.database_parts.erasure
        self._folder = folder
        self._postgres = postgres

    def words(self) -> set[str]:
        """Return the words that are anywhere in the files, or in a row of the database."""
        result = list(self._files())
        if self._postgres is not None:
            result += rows_of(self._postgres)
        return {word for word in WORDS if any(word.encode() in each for each in result)}

    async def _leave_snapshot(self, log_id: LogId) -> None:
        """Write a snapshot of a log, as a longer one would have."""
        log = self.server.runtime.parts.storage.log
        state = fold(log_id, await log.read(log_id))
        body = to_snapshot(state)
        assert body
        assert SAID.encode() in body
        assert await log.snapshots.write(log_id, StoredState(state.seq, fold_version(), body))

    async def talk(self, **more: Any) -> dict[str, Any]:
        """Have a conversation in which every text occurs; returns both messages."""
        waiting = (await self.server.say(ASKED, **more)).json()
        (question,) = waiting["suspended"]["questions"]
        fields = {"answer": SAID}
        answered = await self.client.post(f"{QUESTIONS}/{question['id']}/answer", json=fields)
        assert answered.status_code == 200, answered.text
        await self.server.runtime.requests.wait(waiting["taskId"])
        await self._leave_snapshot(LogId(waiting["conversationId"]))
        shown = {"conversationId": waiting["conversationId"]}
        history = (await self.client.get(CHAT, params=shown)).json()
        user, answer = history["messages"]
        assert SAID in answer["content"]
        return {"conversation": waiting["conversationId"], "messages": [user["id"], answer["id"]]}

    async def delete(self, path: str) -> None:
        """Send a request that deletes."""
        gone = await self.client.delete(f"{CHAT}{path}")
        assert gone.status_code == 204, gone.text

    def _files(self) -> Iterator[bytes]:
        for path in self._folder.rglob("*"):
            if path.is_file():
                yield path.read_bytes()


def rows_of(url: str) -> list[bytes]:
    """Return every row of every table of a Postgres database."""
    with psycopg.connect(url, autocommit=True) as connection:
        text = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        tables = [name for (name,) in connection.execute(text)]
        every = SQL("SELECT t::text FROM {} AS t")
        return [
            row.encode()
            for table in tables
            for (row,) in connection.execute(every.format(Identifier(table)))
        ]


def model() -> ScriptedModel:
    """Say the word, let a tool have it, and say it again."""
    spoken = [call("hoard", word=SAID) + call(SAID), say(f"Kept {SAID}.")]
    return ScriptedModel(spoken * 2)


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    async with opened(tmp_path, url) as place:
        yield place


@asynccontextmanager
async def opened(
    root: Path,
    url: str | None,
    *,
    script: ScriptedModel | None = None,
    hooks: Sequence[Hooks[Any]] = (),
) -> AsyncIterator[Place]:
    """Open a project in a folder, its database there or at an address."""
    script = script or model()
    settings: dict[str, Any] = {"models": {"default": script.card.model_id}}
    settings |= {"synchronous": "NORMAL"} | ({"database_url": url} if url else {})
    async with open_project(
        root, tools=[hoard, refuse], models=[script], settings=settings, hooks=hooks
    ) as runtime:
        app = create_application(runtime)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            yield Place(InMemoryServer(app, runtime, client), root / ".penstock", url)


pytestmark = pytest.mark.slow("opens a project")


async def test_the_words_are_stored_before_erasing(place: Place) -> None:
    """Else nothing below could fail."""
    await place.talk()
    assert place.words() == {SAID, SESSION, PROFILE}


async def test_erasing_both_messages_removes_everything_of_the_task(place: Place) -> None:
    """What tools keep for the conversation or the profile is not the message's."""
    talk = await place.talk()
    for message_id in talk["messages"]:
        await place.delete(f"/messages/{message_id}")
    assert place.words() == {SESSION, PROFILE}


async def test_superseded_answers_are_erased_with_the_last_one(place: Place) -> None:
    talk = await place.talk()
    again = f"{CHAT}/messages/{talk['messages'][1]}/regenerate"
    await place.client.post(again, json={})
    shown = {"conversationId": talk["conversation"]}
    history = (await place.client.get(CHAT, params=shown)).json()
    (user,) = history["messages"]
    await place.server.runtime.requests.cancel(user["metadata"]["taskId"])
    await place.server.runtime.requests.wait(user["metadata"]["taskId"])
    await place.delete(f"/messages/{user['id']}")
    assert place.words() == {SESSION, PROFILE}


async def test_erasing_the_message_of_a_cancelled_task_removes_everything_of_the_task(
    place: Place,
) -> None:
    """There is no answer that could be named."""
    waiting = (await place.server.say(ASKED)).json()
    await place.server.runtime.requests.cancel(waiting["taskId"])
    await place.server.runtime.requests.wait(waiting["taskId"])
    shown = {"conversationId": waiting["conversationId"]}
    (user,) = (await place.client.get(CHAT, params=shown)).json()["messages"]
    await place.delete(f"/messages/{user['id']}")
    assert place.words() == {SESSION, PROFILE}


class Marks(Hooks[Any]):
    """Marks the messages of requests, the first one, too."""

    async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
        marked = [replace(each, content=f"{each.content}!") for each in request.messages]
        return replace(request, messages=marked)


@pytest.mark.parametrize("is_large", [False, True])
async def test_what_hooks_made_of_later_requests_goes_with_the_messages_in_them(
    tmp_path: Path, is_large: bool
) -> None:
    script = ScriptedModel([say(f"Kept {SAID}."), say("Yes."), say("Again.")])
    async with opened(tmp_path, None, script=script, hooks=[Marks()]) as place:
        first = (await place.server.say(ASKED + "x" * 40_000 * is_large)).json()
        conversation = first["userMessage"]["conversationId"]
        await place.server.say("Really?", conversationId=conversation)
        shown = {"conversationId": conversation}
        history = (await place.client.get(CHAT, params=shown)).json()
        for message in history["messages"][:2]:
            await place.delete(f"/messages/{message['id']}")
        assert place.words() == set()
        again = (await place.server.say("And now?", conversationId=conversation)).json()
    assert again["assistantMessage"]["content"] == "Again."
    assert len(script.requests[2].messages) == 3


async def test_erasing_a_conversation_removes_everything_stored_in_it(place: Place) -> None:
    talk = await place.talk()
    await place.delete(f"/conversations/{talk['conversation']}")
    assert place.words() == {PROFILE}


async def test_erasing_the_chat_with_an_agent_removes_all_conversations(place: Place) -> None:
    for _ in range(2):
        await place.talk()
    await place.delete("")
    assert place.words() == {PROFILE}


async def test_erasing_a_profile_removes_everything_it_owns(place: Place) -> None:
    await place.talk()
    await place.server.runtime.call("refuse", {"word": SAID})
    await place.erasure.erase_profile(ProfileId("local"))
    assert place.words() == set()
