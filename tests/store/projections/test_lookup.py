"""Where something stands that is known by its id alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.core.ids import ArtifactId, BlobId, LogId, MessageId, ProfileId, SessionId
from penstock.core.limits import Limits
from penstock.core.profile import ADMIN, LOCAL_PROFILE, Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.projections.lookup import Lookup, MessageLocation
from tests.kit.server import served
from tests.kit.tools import Act, echo

LOCAL = LOCAL_PROFILE
BOSS = Profile(profile_id=ProfileId("boss"), permissions=frozenset({ADMIN}))
HERE = Profile(session_id=SessionId("conv_1"))
BOB = Profile(profile_id=ProfileId("bob"))
SMALL = Agent("assistant", settings=ChatSettings(result_max_chars=500))


async def test_a_message_is_found_by_both_its_ends() -> None:
    async with served() as server:
        both = (await server.say("Hi")).json()
        await server.say("Another")
        place = MessageLocation(
            LogId(both["userMessage"]["conversationId"]),
            both["userMessage"]["metadata"]["taskId"],
        )
        lookup = server.database_parts.lookup
        for message in both.values():
            found = await lookup.find_message(MessageId(message["id"]), "assistant", LOCAL)
            assert found == place


async def test_a_message_of_others_is_not_found() -> None:
    async with served() as server:
        message = (await server.say("Hi")).json()["userMessage"]["id"]
        find = server.database_parts.lookup.find_message
        assert await find(message, "assistant", BOB) is None
        assert await find(message, "other", LOCAL) is None
        assert await find(message, "assistant", BOSS) is not None
        assert await find(message, "assistant", HERE) is None
        for name in ("msg_none", "%", "", '"'):
            assert await find(MessageId(name), "assistant", LOCAL) is None


@pytest.mark.parametrize("name", ["a\x00b", "\ud83d"])
async def test_no_name_is_too_strange_to_be_looked_for(
    database: Database, blobs: Blobs, name: str
) -> None:
    """A model may ask for any artifact: there is none, whatever the database refuses."""
    lookup = Lookup(database, blobs)
    assert await lookup.find_artifact(ArtifactId(name), LOCAL) is None
    assert await lookup.find_message(MessageId(name), "assistant", LOCAL) is None


async def test_a_message_that_stands_in_the_blob_store_is_found() -> None:
    async with served(limits=Limits(body_bytes=200)) as server:
        long = (await server.say("x" * 500)).json()
        find = server.database_parts.lookup.find_message
        assert await find(MessageId(long["userMessage"]["id"]), "assistant", LOCAL) is not None


async def test_an_artifact_is_found_small_or_large() -> None:
    model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
    for limits in (Limits(), Limits(body_bytes=300)):
        async with served(
            model=model, tools=[Act("echo", echo)], agents=[SMALL], limits=limits
        ) as server:
            model = ScriptedModel([call("echo", text="y" * 3000), say("Long.")])
            answer = (await server.say("Go")).json()["assistantMessage"]
            artifact = ArtifactId(answer["toolResults"][0]["artifactId"])
            kept = await server.database_parts.lookup.find_artifact(artifact, LOCAL)
            assert kept is not None
            assert kept.tool_id == "echo"
            assert await server.database_parts.lookup.find_artifact(artifact, BOB) is None
            assert await server.database_parts.lookup.is_owned(kept.blob_id, LOCAL)
            assert not await server.database_parts.lookup.is_owned(kept.blob_id, BOB)
            assert not await server.database_parts.lookup.is_owned(BlobId(artifact), LOCAL)


async def test_what_does_not_read_back_owns_nothing_and_hides_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([call("echo", text="y" * 3000), call("echo", text="z" * 3000), say("!")])
    path = tmp_path / "one.db"
    echoing = served(
        model=model, tools=[Act("echo", echo)], agents=[SMALL], url=f"sqlite:///{path}"
    )
    async with echoing as server:
        answer = (await server.say("Go")).json()["assistantMessage"]
        first, second = (ArtifactId(each["artifactId"]) for each in answer["toolResults"])
        lookup = server.database_parts.lookup
        kept = await lookup.find_artifact(first, LOCAL)
        assert kept is not None
        broken = f'{{"{second}" "{first}" "{kept.blob_id}"'
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            where = "UPDATE events SET body = ? WHERE kind = 'call_settled' AND body LIKE ?"
            other.execute(where, (broken, f"%{first}%"))
        assert await lookup.find_artifact(first, LOCAL) is None
        assert not await lookup.is_owned(kept.blob_id, LOCAL)
        assert await lookup.find_artifact(second, LOCAL) is not None
