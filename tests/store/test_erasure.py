"""Erasing: bodies are blanked, what ended stays ended."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, Table, event, select

from penstock.agents.agent import Agent, ChatSettings
from penstock.builtins.ask_user import TOOLS
from penstock.core.errors import NotFound, SessionBusy
from penstock.core.events.codec import encode, to_wire
from penstock.core.events.events import Entry, TaskEnded
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import Erased, MessagesErased
from penstock.core.ids import BlobId, LogId, ProfileId, SessionId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.tables import (
    deltas,
    files,
    idempotency,
    keys,
    logs,
    media,
    metadata,
    schedules,
    scopes,
    secrets,
    sign_ins,
    state,
    web_links,
)
from penstock.testing.clock import FakeClock
from penstock.tools.python.function import tool
from tests.kit.asking import ask
from tests.kit.child_events import STORED_OF_CHILDREN
from tests.kit.log_entries import ANN, CHAT, ONE, TWO, ended, held, started
from tests.kit.server import InMemoryServer, served
from tests.kit.tools import Act, echo

CHILD: Any = STORED_OF_CHILDREN[0][0]
SECRET = "sesame"  # noqa: S105  what is to be erased
SMALL = Agent("assistant", settings=ChatSettings(result_max_chars=500))


@pytest.fixture
def erasure(database: Database, blobs: Blobs, clock: FakeClock) -> Erasure:
    return Erasure(database, blobs, clock)


async def texts(server: InMemoryServer, log_id: LogId) -> list[str]:
    """Return every body of a log as text."""
    records = await server.runtime.parts.storage.log.read(log_id)
    return [f"{to_wire(each.event)}" for each in records]


async def tell(server: InMemoryServer) -> tuple[LogId, TaskId]:
    """Let every party use a secret."""
    reply = await ask(server.runtime, f"It is {SECRET}")
    return LogId(reply.session_id), reply.task_id


async def test_the_undos_of_a_conversation_are_erased_with_it() -> None:
    """They repeat the inputs and outputs of the calls that they take back."""

    @tool
    def take_back(input: dict[str, Any], output: str) -> str:
        """Take it back."""
        return f"took back {input['text']}"

    @tool(revert=take_back)
    def put(text: str) -> str:
        """Put a text somewhere."""
        return "done"

    model = ScriptedModel([call("put", text=SECRET), say("Ok.")])
    async with served(model=model, tools=[put, take_back]) as server:
        reply = await ask(server.runtime, "Put it.")
        undo = await server.runtime.undo(reply.task_id)
        log_id = LogId(undo.undo_id or "")
        assert (undo.status, SECRET in f"{await texts(server, log_id)}") == ("succeeded", True)
        deleted = await server.database_parts.erasure.erase_log(LogId(reply.session_id))
        assert (log_id in deleted, await texts(server, log_id)) == (True, [])


def telling() -> ScriptedModel:
    """A model that repeats it, to a tool and to the person."""
    return ScriptedModel([call("echo", text=SECRET), say(f"So {SECRET}."), say("Ok.")])


@pytest.mark.parametrize("limits", [Limits(), Limits(body_bytes=20)], ids=["small", "large"])
async def test_messages_are_erased_and_the_log_records_it(limits: Limits) -> None:
    async with served(model=telling(), tools=[Act("echo", echo)], limits=limits) as server:
        log_id, task_id = await tell(server)
        opened = (await server.runtime.parts.storage.log.read(log_id))[0].event
        assert SECRET in f"{to_wire(opened)}"
        body = BlobId(sha256(encode(opened).encode()).hexdigest())
        blobs = server.runtime.parts.storage.blobs
        assert await blobs.exists(body) is (limits.body_bytes == 20)
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True, answer=True)
        assert SECRET not in "".join(await texts(server, log_id))
        assert not await blobs.exists(body)
        records = await server.runtime.parts.storage.log.read(log_id)
        assert records[-1].event == MessagesErased(of_task=task_id, user=True, answer=True)
        kept = [each.event for each in records if not isinstance(each.event, Erased)]
        assert isinstance(kept[-2], TaskEnded)
        task = await server.runtime.parts.storage.projections.find_task(task_id)
        assert task is not None
        assert task.status.is_final
        session = await server.runtime.parts.storage.projections.find_session(SessionId(log_id))
        assert session is not None
        assert (session.title, session.message_count) == ("", 0)


async def test_one_part_can_be_erased_alone() -> None:
    async with served(model=telling(), tools=[Act("echo", echo)]) as server:
        log_id, task_id = await tell(server)
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True)
        assert f"So {SECRET}." in "".join(await texts(server, log_id))
        session = await server.runtime.parts.storage.projections.find_session(SessionId(log_id))
        assert session is not None
        assert session.message_count == 1
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True)
        session = await server.runtime.parts.storage.projections.find_session(SessionId(log_id))
        assert session is not None
        assert session.message_count == 1


async def test_large_bodies_and_artifacts_are_deleted_too() -> None:
    limits = Limits(body_bytes=300)
    model = ScriptedModel([call("echo", text=SECRET * 500), say("Long.")])
    async with served(
        model=model, tools=[Act("echo", echo)], agents=[SMALL], limits=limits
    ) as server:
        answer = (await server.say("x" * 400 + SECRET)).json()["assistantMessage"]
        artifact = answer["toolResults"][0]["artifactId"]
        kept = await server.database_parts.lookup.find_artifact(artifact, LOCAL_PROFILE)
        assert kept is not None
        log_id, task_id = LogId(answer["conversationId"]), answer["metadata"]["taskId"]
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True, answer=True)
        assert SECRET not in "".join(await texts(server, log_id))
        assert not await server.runtime.parts.storage.blobs.exists(kept.blob_id)


async def test_a_question_is_sent_with_its_form() -> None:
    ask = call("ask_user", question="Which?", type="input", defaultValue=SECRET)
    async with served(model=ScriptedModel([ask]), tools=TOOLS) as server:
        log_id, task_id = await tell(server)
        await server.runtime.requests.cancel(task_id)
        await server.runtime.requests.wait(task_id)
        assert SECRET in "".join(await texts(server, log_id))
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True, answer=True)
        assert SECRET not in "".join(await texts(server, log_id))


async def test_a_running_conversation_is_not_changed() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        log_id, task_id = await tell(server)
        with pytest.raises(SessionBusy):
            await server.database_parts.erasure.erase_messages(log_id, task_id, user=True)
        assert SECRET in "".join(await texts(server, log_id))


async def test_a_task_that_is_not_there() -> None:
    async with served() as server:
        log_id, _ = await tell(server)
        with pytest.raises(NotFound):
            await server.database_parts.erasure.erase_messages(log_id, TaskId("task_x"), user=True)


async def test_blobs_of_large_bodies_go_with_the_last_log_that_has_them() -> None:
    said = [call("echo", text=SECRET * 500), say("Long.")]
    async with served(
        model=ScriptedModel(said * 2),
        tools=[Act("echo", echo)],
        agents=[SMALL],
        limits=Limits(body_bytes=300),
    ) as server:
        one, two = [(await server.say("Go")).json()["assistantMessage"] for _ in range(2)]
        artifact_id = one["toolResults"][0]["artifactId"]
        kept = await server.database_parts.lookup.find_artifact(artifact_id, LOCAL_PROFILE)
        assert kept is not None
        for answer, is_left in ((one, True), (two, False)):
            await server.database_parts.erasure.erase_log(LogId(answer["conversationId"]))
            assert await server.runtime.parts.storage.blobs.exists(kept.blob_id) == is_left


async def test_bytes_that_are_a_file_too_are_left(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    model = ScriptedModel([call("echo", text=SECRET * 500), say("Long.")])
    async with served(
        model=model, tools=[Act("echo", echo)], agents=[SMALL], url=f"sqlite:///{path}"
    ) as server:
        answer = (await server.say("Go")).json()["assistantMessage"]
        artifact = answer["toolResults"][0]["artifactId"]
        kept = await server.database_parts.lookup.find_artifact(artifact, LOCAL_PROFILE)
        assert kept is not None
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            file = ("profile", "local", b"/a", kept.blob_id, 1, 1)
            other.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", file)
        await server.database_parts.erasure.erase_log(LogId(answer["conversationId"]))
        assert await server.runtime.parts.storage.blobs.exists(kept.blob_id)


async def test_bytes_that_were_stored_once_are_not_searched_elsewhere() -> None:
    """To delete a conversation costs as much as there is in it, not as much as there is at all."""
    ran: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        ran.append(statement)

    model = ScriptedModel([call("echo", text=SECRET * 500), say("Long.")])
    async with served(model=model, tools=[Act("echo", echo)], agents=[SMALL]) as server:
        answer = (await server.say("Go")).json()["assistantMessage"]
        event.listen(Engine, "before_cursor_execute", note)
        try:
            await server.database_parts.erasure.erase_log(LogId(answer["conversationId"]))
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    assert [each for each in ran if "events" in each and "events.log_id =" not in each] == []


async def test_a_deleted_log_leaves_shared_blobs() -> None:
    limits = Limits(body_bytes=100)
    async with served(limits=limits) as server:
        first, second = await tell(server), await tell(server)
        await server.database_parts.erasure.erase_log(first[0])
        assert await server.runtime.parts.storage.log.head(first[0]) == 0
        assert SECRET in "".join(await texts(server, second[0]))
        assert LOCAL_PROFILE.everything


async def test_large_bodies_go_with_their_log() -> None:
    """Nothing else refers to them: what a model wrote, and the outcome of its call."""
    limits = Limits(body_bytes=100)
    model = ScriptedModel([call("echo", text=SECRET * 100), say(SECRET * 100)])
    async with served(model=model, tools=[Act("echo", echo)], limits=limits) as server:
        log_id, _ = await tell(server)
        bodies = await large_bodies(server, log_id)
        assert len(bodies) >= 3
        await server.database_parts.erasure.erase_log(log_id)
        assert not [
            each for each in bodies if await server.runtime.parts.storage.blobs.exists(each)
        ]


async def large_bodies(server: InMemoryServer, log_id: LogId) -> list[BlobId]:
    """Return the ids of the bodies of a log that are in the blob store."""
    bodies = [
        encode(each.event).encode() for each in await server.runtime.parts.storage.log.read(log_id)
    ]
    ids = [BlobId(sha256(each).hexdigest()) for each in bodies]
    return [each for each in ids if await server.runtime.parts.storage.blobs.exists(each)]


async def test_pieces_of_a_reply_that_was_cut_go_with_the_answer(
    database: Database, log: SqlLog, erasure: Erasure
) -> None:
    """A process that is killed leaves them, and they would stay until the log is deleted."""
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    for unit, task_id in enumerate((ONE, TWO)):
        piece = (CHAT, 2, unit, task_id, 1, 0, "text", '"sesame"')
        await database.write(partial(add, deltas, piece))
    await erasure.erase_messages(CHAT, ONE, answer=True)
    left = await database.read(lambda each: each.execute(select(deltas.c.task_id)).all())
    assert left == [(TWO,)]


def add(table: Table, values: tuple[Any, ...], connection: Connection) -> None:
    connection.execute(table.insert().values(values))


OWNED = {
    files: ("profile", "{}", b"/a", "0" * 64, 1, 1),
    state: ("profile", "{}", b"k", '"v"', "rev_1", None),
    scopes: ("profile", "{}", 1, 1),
    secrets: ("profile", "{}", "token", "key", b"sealed", 1),
    media: ("media_{}", "{}", "1" * 64, "text/plain", 1, None, 1 << 50),
    keys: ("hash_{}", "{}", "{}", ["chat"], 1, None, None, None, None),
    sign_ins: ("cookie_{}", "hash_{}", 1 << 50),
    idempotency: ("{}", "key", "hash", "conv_x", "task_x", 1),
    web_links: ("link_{}", "conv_x", "{}", [], 1 << 50),
    schedules: (
        *("sched_{}", "assistant", "News", "cron", "UTC", "message", "assistant", "forbid", "api"),
        *("{}", "@daily", None, None, None, None, "active", {"content": "Hi"}, {}, None),
        *(None, 1 << 50, None, 1, 1, 0, 1, 1),
    ),
    logs: ("conv_{}", "{}", "assistant", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
}
"""A row of each table that has something of a profile."""


async def test_deleting_a_profile_deletes_only_its_rows(
    database: Database, erasure: Erasure
) -> None:
    for name in ("ann", "bob"):
        for table, row in OWNED.items():
            values = tuple(each.format(name) if isinstance(each, str) else each for each in row)
            await database.write(partial(add, table, values))
    await database.write(partial(add, state, ("shared", "ann", b"k", '"v"', "rev_1", None)))
    await erasure.erase_profile(ProfileId("ann"))
    for table in OWNED:
        rows = await database.read(partial(all_of, table))
        shared = 1 if table is state else 0
        assert (len(rows), "bob" in str(rows)) == (1 + shared, True), table.name
    assert await erasure.erase_profile(ProfileId("nobody")) == set()


def all_of(table: Table, connection: Connection) -> Sequence[Any]:
    return connection.execute(select(table)).all()


def test_every_table_with_a_profile_is_in_the_list_above() -> None:
    """Tables that follow from a log go with it; a scope belongs to a profile by its kind."""
    follow = {"tasks", "sessions", "questions"}
    named = {
        table
        for table in metadata.tables.values()
        if table.name not in follow
        and {"profile_id", "scope_id", "key_sha256"} & set(table.c.keys())
    }
    assert named == set(OWNED)


async def test_runs_that_runs_began_go_too_and_those_of_others_stay(
    log: SqlLog, erasure: Erasure
) -> None:
    """One of them has its request in the blob store."""
    await held(log)
    for name, waiter, task in (("a", CHAT, "x" * 300), ("b", "run_a", "x"), ("c", "conv_2", "x")):
        asked = FlowRequested(
            command="look", profile_id=ANN, task=task, waiter_log=LogId(waiter), waiter=ONE
        )
        await log.send(LogId(f"run_{name}"), [Entry(asked, TaskId(f"run_{name}"))])
    assert await erasure.erase_log(CHAT) == {CHAT, "run_a", "run_b"}
    assert [await log.head(LogId(f"run_{name}")) > 0 for name in "abc"] == [False, False, True]


async def test_children_of_a_conversation_go_with_it(log: SqlLog, erasure: Erasure) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    child = replace(CHILD, profile_id=ANN, parent=ONE, parent_log=CHAT)
    for name, parent_log, parent in (("a", CHAT, ONE), ("b", "task_a", "task_a")):
        asked = replace(child, parent=TaskId(parent), parent_log=LogId(parent_log))
        await log.send(LogId(f"task_{name}"), [Entry(asked, TaskId(f"task_{name}"))])
    assert await erasure.erase_log(CHAT) == {CHAT, "task_a", "task_b"}


async def test_listeners_are_notified_of_every_log_that_lost_text(
    log: SqlLog, erasure: Erasure
) -> None:
    told: list[LogId] = []
    erasure.listen(told.append)
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    asked = FlowRequested(command="look", profile_id=ANN, waiter_log=CHAT, waiter=ONE)
    await log.send(LogId("run_a"), [Entry(asked, TaskId("run_a"))])
    await erasure.erase_messages(CHAT, ONE, answer=True)
    await erasure.erase_log(CHAT)
    await log.send(LogId("run_b"), [Entry(asked, TaskId("run_b"))])
    await erasure.erase_profile(ANN)
    assert told == ["run_a", CHAT, CHAT, "run_b"]


@pytest.mark.parametrize("limits", [Limits(), Limits(body_bytes=400)], ids=["small", "large"])
async def test_a_summary_goes_with_each_message_that_it_replaces(limits: Limits) -> None:
    def answer(request: ModelRequest) -> ScriptedReply:
        return say(
            f"So {SECRET}. " * 40 if "summary of a conversation" in request.system else "a" * 900
        )

    settings = ChatSettings(context_max_tokens=1_000, llm_max_tokens=100)
    agent = Agent("assistant", settings=settings, history="summarise")
    async with served(model=ScriptedModel(answer), agents=[agent], limits=limits) as server:
        log_id, task_id = await tell(server)
        for number in range(4):
            await ask(server.runtime, f"message {number}", session=log_id)
        assert f"So {SECRET}." in "".join(await texts(server, log_id))
        await server.database_parts.erasure.erase_messages(log_id, task_id, user=True)
        assert SECRET not in "".join(await texts(server, log_id))
        assert (await ask(server.runtime, "Go on", session=log_id)).status.value == "succeeded"
