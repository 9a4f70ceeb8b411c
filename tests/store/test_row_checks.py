"""A value of the wrong kind in a column hurts its own row alone."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import StoreCorrupt
from penstock.core.ids import LogId, ProfileId
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections.projections import Page
from penstock.store.projections.sql_projections import SqlProjections
from penstock.store.row_checks import check_columns, moment_or_first
from penstock.testing.clock import FakeClock
from tests.kit.entries import ANN, CHAT, ONE, asked, message, opened, started

WRONG: list[Any] = ["odd", b"\xff\xfe", -1, 2**62, 3.5, "9" * 40]
OTHER = LogId("conv_2")
COLUMNS = [
    *(("tasks", name) for name in ("created_at", "started_at", "first_seq", "ended_seq")),
    *(("sessions", name) for name in ("created_at", "updated_at", "message_count")),
    *(("questions", name) for name in ("asked_at", "asked_seq", "answered_at")),
    *(("logs", name) for name in ("head", "wake_at", "recoveries", "tried_at", "epoch")),
    ("events", "at"),
]


@pytest.mark.parametrize("value", [*WRONG, None, 0, "text"], ids=repr)
def test_a_column_holds_its_kind_or_nothing(value: Any) -> None:
    row = SimpleNamespace(at=value, seq=value, name=value)
    for names, good in (
        ({"moments": ("at",)}, {None, 0}),
        ({"numbers": ("seq",)}, {None, 0}),
        ({"texts": ("name",)}, {None, "text", "odd", "9" * 40}),
    ):
        usual = {"moments": (), "numbers": (), "texts": ()}
        if value in good:
            check_columns(row, **(usual | names))
            continue
        with pytest.raises(StoreCorrupt, match=r"should hold a (moment|number|text), and holds"):
            check_columns(row, **(usual | names))


def test_a_moment_that_is_none_is_the_first() -> None:
    assert [moment_or_first(each) for each in (*WRONG, None)] == [0] * 7
    assert moment_or_first(1_795_406_660_583) == 1_795_406_660_583


def put(table: str, column: str, value: Any, connection: Connection) -> None:
    key = "session_id" if table == "sessions" else "log_id"
    statement = f"UPDATE {table} SET {column} = :value WHERE {key} = 'conv_1'"  # noqa: S608
    connection.execute(text(statement), {"value": value})


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_lists_show_the_neighbours_of_a_damaged_row(
    table: str, column: str, value: Any, sqlite: Database, blobs: Blobs, clock: FakeClock
) -> None:
    log = SqlLog(sqlite, blobs, clock)
    for log_id in (CHAT, OTHER):
        await log.send(log_id, [opened("A title", profile_id=ANN)])
    await log.send(CHAT, [message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked()])
    await sqlite.write(partial(put, table, column, value))
    projections = SqlProjections(sqlite, blobs)
    shown, _ = await projections.sessions(profile_id=ProfileId(ANN), page=Page())
    assert OTHER in {LogId(each.session_id) for each in shown}
    assert {each.task_id for each in (await projections.tasks(page=Page()))[0]} <= {ONE}
    assert len((await projections.questions(page=Page()))[0]) <= 1
    assert OTHER in {each.log_id for each in await log.pending(limit=10)}
