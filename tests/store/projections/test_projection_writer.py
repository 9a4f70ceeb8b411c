"""What follows from an event; the contracts say what, these say that nothing is forgotten."""

from typing import get_args

import pytest
from sqlalchemy import Connection, text

from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Event,
    MessagesErased,
    NoteEmitted,
    Record,
    ReplyReceived,
    SessionOpened,
    StateWritten,
)
from penstock.core.ids import MessageId, ProfileId, TaskId
from penstock.core.limits import Limits
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections.projection_writer import HAVE_CONSEQUENCES, ProjectionWriter, plain
from penstock.store.statements import Statements, cursor_of
from tests.kit.entries import CHAT, ONE, message, opened

WITHOUT: list[Event] = [
    CallStarted(tool_id="t", idempotency_key="k"),
    CallSettled(tool_id="t", envelope=Envelope.success(1)),
    ReplyReceived(iteration=1, base=0, text="Hi", message_id=MessageId("m")),
    NoteEmitted(event_type="t"),
    StateWritten(tool_id="t", key="k", value=1, revision=1),
    MessagesErased(of_task=ONE, user=True, answer=True),
]


class NoCursor:
    """A cursor that nobody may use."""


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
        "AgentReminded",
        "CallRetried",
        "FlowStarted",
        "FlowNotified",
        "PromptResolved",
        "ReplyRestarted",
        "RunEnded",
        "SecretGiven",
        "SkillsSelected",
        "StepSettled",
        "StepStarted",
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
        projections.follow(cursor_of(connection), record)
        return connection.execute(text("SELECT title FROM sessions")).scalar()

    assert await database.write(unit) == kept
    assert plain(given) == kept


async def test_only_a_task_that_is_there_can_be_erased(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    projections = ProjectionWriter(Statements(database.dialect), Limits())
    erased = MessagesErased(of_task=TaskId("task_9"), user=True, answer=False)
    record = Record(CHAT, 3, Moment(0), None, None, erased)
    with pytest.raises(NotFound, match="'task_9' in 'conv_1'"):
        await database.write(lambda each: projections.admit(cursor_of(each), record))
