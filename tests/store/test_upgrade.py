"""A database of yesterday is opened by the penstock of today."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from penstock.core.errors import StoreTooNew
from penstock.core.ids import LogId
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.tables import REVISION, metadata
from penstock.store.upgrade import MIGRATIONS, upgrade
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, message, opened

Shape = dict[str, object]


def remove_all(connection: Connection) -> None:
    for name in (*metadata.tables, "alembic_version"):
        connection.execute(text(f"DROP TABLE {name}"))


def plain(index: Mapping[str, Any]) -> str:
    """Return an index as text, with its condition."""
    options = {name: str(option) for name, option in index.get("dialect_options", {}).items()}
    return str({**index, "dialect_options": options})


def shape(connection: Connection) -> Shape:
    """Return everything that the database knows about its tables."""
    inspector = inspect(connection)
    names = sorted(inspector.get_table_names())
    found: Shape = {name: sorted(map(str, inspector.get_columns(name))) for name in names}
    for name in names:
        found[f"{name} key"] = inspector.get_pk_constraint(name)["constrained_columns"]
        found[f"{name} indexes"] = sorted(map(plain, inspector.get_indexes(name)))
        found[f"{name} unique"] = sorted(map(str, inspector.get_unique_constraints(name)))
    if connection.dialect.name == "sqlite":
        made = text("SELECT name FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%'")
        found["without rowid"] = sorted(connection.execute(made).scalars())
    return found


async def test_all_migrations_together_make_the_tables_of_a_new_database(
    database: Database,
) -> None:
    new = await database.write(shape)
    await database.write(remove_all)
    await database.write(upgrade)
    assert await database.write(shape) == new


def test_the_newest_migration_is_the_one_that_the_tables_name() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [REVISION]


def test_migrations_go_forward_only() -> None:
    scripts = list(ScriptDirectory(str(MIGRATIONS)).walk_revisions())
    assert scripts[0].revision == REVISION
    assert [each.revision for each in scripts if hasattr(each.module, "downgrade")] == []


def do(statement: str, row: dict[str, object], connection: Connection) -> None:
    connection.execute(text(statement), row)


async def made_by(database: Database, revision: str) -> None:
    """Leave the database as the version of penstock with this revision made it."""
    await database.write(remove_all)
    await database.write(lambda connection: upgrade(connection, revision))
    session = {"log_id": CHAT, "profile_id": "ann", "agent": "assistant", "head": 1, "outside": 1}
    event = {"log_id": CHAT, "seq": 1, "at": 5, "kind": "session_opened"}
    body = '{"profile_id":"ann","agent":"assistant","title":"Yesterday"}'
    for table, row in (("logs", session), ("events", event | {"body": body})):
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
        await database.write(partial(do, statement, row))


@pytest.mark.parametrize("revision", [f"000{number}" for number in range(1, 9)])
async def test_a_database_of_an_older_version_opens_and_continues(
    database_url: str, revision: str, blobs: Blobs
) -> None:
    yesterday = await open_database(database_url)
    await made_by(yesterday, revision)
    await yesterday.close()
    today = await open_database(database_url)
    log = SqlLog(today, blobs, FakeClock())
    (first,) = await log.read(CHAT)
    assert first.event == opened("Yesterday").event
    assert [each.seq for each in await log.send(CHAT, [message()])] == [2]
    await log.send(LogId("conv_2"), [opened()])
    await today.close()


async def test_an_upgrade_drops_the_tables_that_nothing_reads(database_url: str) -> None:
    before = await open_database(database_url)
    await made_by(before, "0008")
    row = {"agent": "assistant", "settings": '{"temperature": 1}', "at": 5}
    insert = "INSERT INTO agent_settings VALUES (:agent, :settings, :at)"
    await before.write(partial(do, insert, row))
    await before.close()
    after = await open_database(database_url)
    assert not {"agents", "agent_settings"} & (await after.read(shape)).keys()
    await after.close()


async def test_an_unknown_revision_is_refused_and_changes_nothing(
    database: Database,
) -> None:
    newer = text("UPDATE alembic_version SET version_num = 'from the future'")
    await database.write(lambda connection: connection.execute(newer))
    before = await database.read(shape)
    with pytest.raises(StoreTooNew, match=f"'from the future'.*'{REVISION}'"):
        await database.write(upgrade)
    assert await database.read(shape) == before
