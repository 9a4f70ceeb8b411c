"""The conversations of a profile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.directory import Directory, conversation
from penstock.core.errors import NotFound
from penstock.core.events.events import CancelRequested, Record
from penstock.core.ids import LogId, ProfileId, SessionId, new_id
from penstock.core.profile import ADMIN, LOCAL_PROFILE, Profile
from penstock.core.task import FLOW
from penstock.models.scripted import ScriptedModel, call
from penstock.store.projections import Page, TasksOf
from tests.kit.asking import ask
from tests.kit.flow_server import flow_server
from tests.kit.server import CHAT, InMemoryServer, served
from tests.kit.tools import Act

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat"}))
BOSS = Profile(profile_id=ProfileId("boss"), permissions=frozenset({ADMIN}))
AGENT = "assistant"


def directory_of(server: InMemoryServer) -> Directory:
    """Return the directory of a server."""
    parts = server.runtime.parts
    return Directory(
        parts.storage.log, parts.storage.projections, parts.engine.launcher, bus=parts.engine.bus
    )


async def begin(directory: Directory, title: str | None) -> SessionId:
    """Create a conversation of Ann."""
    session = await directory.begin(AGENT, ANN, title, new_id=new_id)
    return session.session_id


async def test_a_new_conversation_has_a_title() -> None:
    async with served() as server:
        directory = directory_of(server)
        await begin(directory, "  a\n long " + "x" * 80)
        newest = await directory.newest(AGENT, ANN)
        assert newest is not None
        assert newest.title.startswith("a long xxx")
        assert len(newest.title) == 60
        assert conversation(newest)["messageCount"] == 0
        untitled = await directory.get(await begin(directory, None), AGENT, ANN)
        assert untitled.title == "New conversation"


async def test_conversations_belong_to_a_profile_and_an_agent() -> None:
    async with served() as server:
        directory = directory_of(server)
        session_id = await begin(directory, "Mine")
        assert (await directory.get(session_id, AGENT, BOSS)).title == "Mine"
        stranger = Profile(profile_id=ProfileId("bob"))
        for profile, agent in ((stranger, AGENT), (ANN, "other")):
            with pytest.raises(NotFound):
                await directory.get(session_id, agent, profile)
        assert await directory.newest(AGENT, stranger) is None
        assert (await directory.list(AGENT, stranger, page=Page()))[1] == 0


async def test_a_deleted_conversation_leaves_no_rows() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        directory, parts = directory_of(server), server.runtime.parts
        reply = await ask(server.runtime, "Mail")
        session = await directory.get(reply.session_id, AGENT, LOCAL_PROFILE)
        await directory.delete(session, server.database_parts.erasure)
        with pytest.raises(NotFound):
            await directory.get(reply.session_id, AGENT, LOCAL_PROFILE)
        assert await parts.storage.log.head(LogId(session.session_id)) == 0
        assert await parts.storage.projections.find_task(reply.task_id) is None


async def test_deleting_a_conversation_ends_its_running_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It ends long before its lease must be renewed, and without a warning."""
    started, ended, erased = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(input: Any, invocation: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            await erased.wait()

    model = ScriptedModel([call("work")])
    async with served(model=model, tools=[Act("work", work)]) as server:
        directory = directory_of(server)
        talk = asyncio.create_task(ask(server.runtime, "Work"))
        await started.wait()
        session = await directory.newest(AGENT, LOCAL_PROFILE)
        assert session is not None
        await directory.delete(session, server.database_parts.erasure)
        await asyncio.wait_for(ended.wait(), 0.5)
        erased.set()
        talk.cancel()
    assert caplog.messages == []


@pytest.mark.slow("opens a store")
async def test_deleting_a_conversation_cancels_and_deletes_its_runs(
    tmp_path: Path,
) -> None:
    """Chat API 11: "a running task is cancelled first", "children too"; other runs continue."""
    async with flow_server(tmp_path) as server:
        kept, gone = [(await server.say("/dom:asks t")).json() for _ in range(2)]
        parts = server.runtime.parts
        await parts.engine.launcher.close()  # so that the launcher does not cancel it first
        (stays,), (goes,) = (each["suspended"]["runs"] for each in (kept, gone))
        readers = [parts.engine.bus.subscribe(LogId(each), 10) for each in (stays, goes)]
        committed: list[Record] = []
        parts.storage.log.listen(committed.extend)
        url = f"{CHAT}/conversations/{gone['conversationId']}"
        assert (await server.client.delete(url)).status_code == 204
        assert [each.is_closed for each in readers] == [False, True]
        cancelled = [each.task_id for each in committed if isinstance(each.event, CancelRequested)]
        assert goes in cancelled
        assert stays not in cancelled
        assert [await parts.storage.log.head(LogId(each)) > 0 for each in (stays, goes)] == [
            True,
            False,
        ]


@pytest.mark.slow("opens a store")
async def test_ended_runs_are_deleted_with_their_conversation_or_its_answer(
    tmp_path: Path,
) -> None:
    async with flow_server(tmp_path) as server:
        await server.say("/look t")
        deleted, erased = [(await server.say("/look t")).json() for _ in range(2)]
        runs = await runs_of(server)
        assert len(runs) == 3
        answer = erased["assistantMessage"]
        for url in (
            f"{CHAT}/conversations/{deleted['userMessage']['conversationId']}",
            f"{CHAT}/messages/{answer['id']}",
        ):
            assert (await server.client.delete(url)).status_code == 204
        assert await runs_of(server) == runs[:1]


async def runs_of(server: InMemoryServer) -> list[str]:
    """Return the runs of flows, oldest first."""
    result, _ = await server.runtime.parts.storage.projections.tasks(
        of=TasksOf(kind=FLOW), page=Page()
    )
    return [each.task_id for each in sorted(result, key=lambda each: each.created_at)]


async def test_deleting_all_conversations_spares_other_profiles() -> None:
    async with served() as server:
        directory = directory_of(server)
        for _ in range(3):
            await begin(directory, None)
        await ask(server.runtime, "Hi")
        await directory.delete_all(AGENT, ANN, server.database_parts.erasure)
        assert (await directory.list(AGENT, ANN, page=Page()))[1] == 0
        assert (await directory.list(AGENT, LOCAL_PROFILE, page=Page()))[1] == 1
