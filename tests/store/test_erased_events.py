"""The erased form of each kind of event: structure, and no text."""

from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace
from sqlalchemy import Connection, select

from penstock.core.errors import SessionBusy, StoreCorrupt
from penstock.core.events.codec import encode
from penstock.core.events.events import (
    Event,
    MessageReceived,
    QuestionAnswered,
    SessionOpened,
    TaskEnded,
)
from penstock.core.events.history_events import Erased, Summarised
from penstock.core.ids import MessageId, ProfileId, QuestionId, TaskId
from penstock.core.task import EXPIRED, QuestionStatus, TaskStatus, standing
from penstock.store.database import Database
from penstock.store.erased_events import (
    ErasedPart,
    blank_of,
    half_of,
    message_of_task,
    overwrite,
    refuse_if_busy,
)
from penstock.store.logs.sql_log import SqlLog
from penstock.store.tables import events, sessions
from tests.kit.log_entries import CHAT, ONE, TWO, ended, held, message, opened, started

WORD = "pineapple"
BOTH = ErasedPart.USER | ErasedPart.ANSWER
KINDS = get_args(Event)
NAMES = {
    "agent",
    "agent_hash",
    "code",
    "command",
    "finish_reason",
    "model",
    "offered",
    "permissions",
    "previous",
    "required_labels",
    "root",
    "selected_skills",
    "skill_ids",
    "step_id",
    "tool_id",
}
"""Fields that hold names given by authors, never text of a conversation."""
OF_THE_PROJECT = {"agent_digest", "agent_schema", "config", "file", "texts"}
"""What a task or a run keeps of the project's own files and code."""


def filled(cls: Any) -> Any:
    """Return a value of a struct in which every text that may be said is the word."""
    hints = get_type_hints(cls)
    words = {each: "name" if each in NAMES | OF_THE_PROJECT else WORD for each in hints}
    return cls(**{each.name: made(hints[each.name], words[each.name]) for each in fields(cls)})


def made(hint: Any, word: str) -> Any:
    if hasattr(hint, "__supertype__"):  # an id
        hint, word = hint.__supertype__, "name"
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType or NoneType in inner:
        return made(next(each for each in inner if each is not NoneType), word)
    if origin is tuple:
        return (made(inner[0], word),)
    if hint is Any or hint is str:
        return word
    if origin is not None:
        return {word: word}
    if issubclass(hint, Struct):
        return filled(hint)
    return next(iter(hint)) if issubclass(hint, Enum) else hint(1)


@pytest.mark.parametrize("kind", [each for each in KINDS if each is not SessionOpened])
def test_erasing_a_message_and_its_answer_leaves_no_word_of_an_event(kind: Any) -> None:
    """The title of a `SessionOpened` is tested in test_erasure.py: it may be a name."""
    event = filled(kind)
    left = blank_of(event, BOTH)
    assert WORD not in encode(event if left is None else left)


def test_the_events_of_the_test_above_are_full_of_the_word() -> None:
    """Otherwise it could not fail: only these have no field for text."""
    silent = {each.__name__ for each in KINDS if WORD not in encode(filled(each))}
    assert silent == {
        "CancelRequested",
        "Erased",
        "Forked",
        "MessagesErased",
        "HandedBack",
        "HandedOff",
        "ReplyRestarted",
        "RunEnded",
        "WaiterAdded",
        "SkillsSelected",
        "StepStarted",
        "TaskResumed",
        "TaskSuspended",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_can_be_erased_alone(kind: Any) -> None:
    event = filled(kind)
    user, answer = blank_of(event, ErasedPart.USER), blank_of(event, ErasedPart.ANSWER)
    if kind.__name__ in {"HookDecided", "PromptResolved", "Summarised"}:
        assert user == answer == Erased()
    else:
        assert user is None or answer is None
    assert blank_of(event, half_of(user=False, answer=False)) is None


def test_a_message_that_took_the_place_of_another_still_does() -> None:
    asked = MessageReceived(
        message_id=MessageId("m"), content=WORD, supersedes=TaskId("t"), request_hash=WORD
    )
    left = blank_of(asked, ErasedPart.USER)
    assert isinstance(left, MessageReceived)
    assert left.supersedes == "t"
    assert blank_of(replace(asked, supersedes=None), ErasedPart.USER) == Erased()


def test_an_end_keeps_how_the_task_ended() -> None:
    end = filled(TaskEnded)
    left = blank_of(end, ErasedPart.ANSWER)
    assert isinstance(left, TaskEnded)
    assert (left.status, left.usage, left.iterations) == (end.status, end.usage, 1)
    assert left.error is not None
    assert (left.error.code, left.error.message) == ("name", "erased")
    assert blank_of(TaskEnded(status=TaskStatus.SUCCEEDED), ErasedPart.ANSWER) is not None


@pytest.mark.parametrize(
    ("status", "answer", "shown"),
    [
        (QuestionStatus.ANSWERED, {"text": WORD}, "answered"),
        (QuestionStatus.CANCELLED, {}, "cancelled"),
        (QuestionStatus.CANCELLED, {**EXPIRED, "resume_payload": WORD}, "expired"),
    ],
)
def test_a_blank_question_keeps_its_status(
    status: QuestionStatus, answer: dict[str, Any], shown: str
) -> None:
    by = ProfileId("ann") if status is QuestionStatus.ANSWERED else None
    given = QuestionAnswered(question_id=QuestionId("q"), status=status, answer=answer, by=by)
    left = blank_of(given, ErasedPart.ANSWER)
    assert isinstance(left, QuestionAnswered)
    assert (standing(left.status, left.answer), left.by) == (shown, by)
    assert WORD not in encode(left)


TITLES = {
    "Hello": ("Hello", ""),
    "its beginning": ("Hel…", ""),
    "of somebody else": ("Greetings", "Greetings"),
    "none": ("", ""),
}


def blank(connection: Connection, half: ErasedPart = ErasedPart.USER) -> None:
    assert overwrite(connection, (CHAT, ONE), {}, half) == set()


def count_of(connection: Connection) -> int | None:
    return connection.execute(select(sessions.c.message_count)).scalar()


@pytest.mark.parametrize(("before", "after"), TITLES.values(), ids=list(TITLES))
async def test_a_title_is_erased_if_it_is_the_beginning_of_the_message(
    log: SqlLog, database: Database, before: str, after: str
) -> None:
    await log.send(CHAT, [opened(before), message()])
    await database.write(blank)
    shown = await database.read(lambda each: each.execute(select(sessions.c.title)).scalar())
    body = await database.read(lambda each: each.execute(select(events.c.body)).scalars().first())
    assert (shown, body) == (after, encode(opened(after).event))


async def test_a_message_is_the_brief_of_its_task_until_it_is_overwritten(
    log: SqlLog, database: Database
) -> None:
    await held(log)
    brief = await database.read(partial(message_of_task, CHAT, ONE, {}))
    assert isinstance(brief, MessageReceived)
    await database.write(blank)
    assert await database.read(partial(message_of_task, CHAT, ONE, {})) is None


async def test_a_log_is_busy_until_every_task_has_ended(log: SqlLog, database: Database) -> None:
    lease = await held(log)
    with pytest.raises(SessionBusy):
        await database.read(partial(refuse_if_busy, CHAT))
    await log.append(lease, [started(), ended()])
    await database.read(partial(refuse_if_busy, CHAT))
    await log.send(CHAT, [message(TWO)])
    with pytest.raises(SessionBusy):
        await database.read(partial(refuse_if_busy, CHAT))


async def test_an_event_that_does_not_read_back_is_named(log: SqlLog, database: Database) -> None:
    await held(log)
    broken = events.update().where(events.c.seq == 2).values(body="{")
    await database.write(lambda connection: connection.execute(broken))
    with pytest.raises(StoreCorrupt, match=f"event 2 of log '{CHAT}'.*delete this conversation"):
        await database.write(blank)


async def test_an_erasure_counts_the_messages_of_the_conversation_again(
    log: SqlLog, database: Database
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    counts: list[int | None] = []
    for half in (ErasedPart.USER, ErasedPart.USER, ErasedPart.ANSWER):
        await database.write(partial(blank, half=half))
        counts.append(await database.read(count_of))
    assert counts == [1, 1, 0]


def test_a_cut_without_a_summary_stays_when_a_task_that_it_names_is_erased() -> None:
    """It quotes nothing; without it, the tasks that were left out would be read again."""
    assert blank_of(Summarised(tasks=(TaskId("t"),), results=2), BOTH) is None
    assert blank_of(Summarised(text="They met.", tasks=(TaskId("t"),)), BOTH) == Erased()
