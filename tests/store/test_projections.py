"""Look-ups of a log, task or question by id alone."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from sqlalchemy import Connection, text

from penstock.agents.agent import Agent, ChatSettings
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Event,
    NoteEmitted,
    Record,
    ReplyReceived,
    SessionOpened,
    StateWritten,
)
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import ArtifactId, BlobId, LogId, MessageId, ProfileId, SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import ADMIN, LOCAL_PROFILE, Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import HAVE_CONSEQUENCES, ProjectionWriter, plain
from penstock.store.references import Lookup, MessageLocation
from penstock.store.statements import Statements
from tests.kit.log_entries import CHAT, ONE, message, opened
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


async def test_a_message_in_the_blob_store_is_found() -> None:
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


async def test_an_unreadable_event_owns_nothing_and_hides_nothing(tmp_path: Path) -> None:
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


WITHOUT: list[Event] = [
    CallStarted(tool_id="t", idempotency_key="k"),
    CallSettled(tool_id="t", envelope=Envelope.success(1)),
    ReplyReceived(iteration=1, base=0, text="Hi", message_id=MessageId("m")),
    NoteEmitted(event_type="t"),
    StateWritten(tool_id="t", key="k", value=1, revision=1),
    MessagesErased(of_task=ONE, user=True, answer=True),
]


class NoCursor:
    """A cursor that fails if it is used."""


@pytest.mark.parametrize("event", WITHOUT)
def test_the_events_of_every_call_touch_no_projection(event: Event) -> None:
    assert type(event) not in HAVE_CONSEQUENCES
    projections = ProjectionWriter(Statements("sqlite"), Limits())
    record = Record(CHAT, 1, Moment(0), ONE, None, event)
    projections.follow(NoCursor(), record)  # type: ignore[arg-type]


def test_every_kind_of_event_was_thought_of() -> None:
    known = {*HAVE_CONSEQUENCES, *map(type, WITHOUT)}
    unknown = {each.__name__ for each in get_args(Event) if each not in known}
    assert unknown == {
        "AgentStarted",
        "HandedOff",
        "HandedBack",
        "AgentReminded",
        "CallRetried",
        "FlowStarted",
        "Forked",
        "FlowNotified",
        "HookDecided",
        "PromptResolved",
        "ReplyRestarted",
        "RunEnded",
        "ChildrenSpawned",
        "WaiterAdded",
        "TreeAsked",
        "SecretGiven",
        "SkillsSelected",
        "StepSettled",
        "StepStarted",
        "Summarised",
        "WaitExpired",
    }


STRANGE = {"a\x00b": "ab", "\ud800x": "\ufffdx", "é 😀": "é 😀"}


@pytest.mark.parametrize(("given", "kept"), STRANGE.items())
async def test_a_title_is_kept_as_far_as_a_database_can(
    database: Database, given: str, kept: str
) -> None:
    projections = ProjectionWriter(Statements(database.dialect), Limits())
    opening = SessionOpened(profile_id=ProfileId("ann"), agent="a", title=given)
    record = Record(CHAT, 1, Moment(0), None, None, opening)

    def unit(connection: Connection) -> object:
        projections.follow(connection.connection.cursor(), record)
        return connection.execute(text("SELECT title FROM sessions")).scalar()

    assert await database.write(unit) == kept
    assert plain(given) == kept


async def test_only_a_task_that_is_there_can_be_erased(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    projections = ProjectionWriter(Statements(database.dialect), Limits())
    erased = MessagesErased(of_task=TaskId("task_9"), user=True, answer=False)
    record = Record(CHAT, 3, Moment(0), None, None, erased)
    with pytest.raises(NotFound, match="'task_9' in 'conv_1'"):
        await database.write(lambda each: projections.admit(each.connection.cursor(), record))
