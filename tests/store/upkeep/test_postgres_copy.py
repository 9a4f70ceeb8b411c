"""A Postgres database is backed up as one moment, restored to SQLite, and moved back."""

from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text

from penstock.core.errors import ConfigError, StoreTooNew
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.backup import BackupWriter, open_unprepared
from penstock.store.upkeep.backup_folder import verify_backup
from penstock.store.upkeep.contents import drifted
from penstock.store.upkeep.moving import TABLES, count_rows, open_move
from penstock.store.upkeep.restore import restore, target_of
from penstock.testing.clock import FakeClock
from tests.kit.backups import made, silent
from tests.kit.databases import empty_database
from tests.kit.log_entries import CHAT, live_a_little

LIMITS = Limits(body_bytes=200)
VALUE = r"""INSERT INTO state VALUES ('profile', 'ann', '\x00ff', '{"a": 1}', 'r', NULL)"""
KEY = """
INSERT INTO keys (sha256, name, profile_id, permissions, created_at)
VALUES ('h', 'ci', 'ann', '["read", "chat"]', 1)
"""


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


@pytest.fixture
def blobs(clock: FakeClock) -> Blobs:
    return open_blobs("memory:///", clock)


@pytest.fixture
async def source(postgres_url: str, blobs: Blobs, clock: FakeClock) -> Any:
    """A database with three logs, a value and a key; a process holds the conversation."""
    database = await open_database(postgres_url, limits=LIMITS)
    await live_a_little(SqlLog(database, blobs, clock), clock)
    for statement in (VALUE, KEY):
        await database.write(partial(do, statement))
    yield database
    await database.close()


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def number(rows: str, connection: Connection) -> int:
    return int(connection.execute(text(f"SELECT count(*) FROM {rows}")).scalar_one())  # noqa: S608


async def counts(database: Database) -> dict[str, int]:
    return {str(each.name): await database.read(partial(count_rows, each)) for each in TABLES}


async def test_a_backup_of_postgres_has_all_rows_and_no_lease(
    source: Database, blobs: Blobs, tmp_path: Path
) -> None:
    backup = await made(source, blobs, tmp_path / "one")
    assert verify_backup(tmp_path / "one", silent) == backup
    assert (backup.logs, backup.missing, backup.problems) == (3, (), ())
    assert names(tmp_path / "one") == ["backup.json", "blobs", "penstock.db"]
    copied = open_blobs(str(tmp_path / "one" / "blobs"))
    copy, _ = await open_unprepared(f"sqlite:///{tmp_path}/one/penstock.db", "memory:///", LIMITS)
    assert await counts(copy) == await counts(source)
    assert await drifted(copy, copied, most_events=100) == (3, [])
    for database, expected in ((source, 1), (copy, 0)):
        assert await database.read(partial(number, "logs WHERE owner IS NOT NULL")) == expected
    await copy.close()


async def test_a_restored_backup_moves_back_to_postgres(
    source: Database, blobs: Blobs, tmp_path: Path, postgres: str
) -> None:
    """The whole way, as docs/operations.md describes it."""
    before = await counts(source)
    await made(source, blobs, tmp_path / "one")
    url = f"sqlite:///{tmp_path}/new/penstock.db"
    target = target_of(url, blobs)
    await restore(tmp_path / "one", target, is_forced=False, progress=silent)
    server = empty_database(postgres)
    move, databases = await open_move(url, server, FakeClock(), silent)
    moved = await move.run(blobs, None)
    assert moved.rows["events"] == before["events"]
    for database in databases:
        await database.close()
    again = await open_database(server, limits=LIMITS)
    assert await counts(again) == before
    log = SqlLog(again, blobs, FakeClock())
    assert [each.seq for each in await log.read(CHAT)] == list(range(1, 14))
    await again.close()


async def test_writes_to_postgres_during_a_backup_are_not_in_it(
    source: Database, blobs: Blobs, tmp_path: Path, postgres_url: str
) -> None:
    written: list[int] = []

    def write(what: str, done: int, total: int) -> None:
        """Change rows while the first tables are already copied."""
        if what == "database" and not written:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("UPDATE tasks SET title = 'later'")
                connection.execute("UPDATE sessions SET title = 'later'")
                connection.execute("DELETE FROM keys")
            written.append(done)

    writer = BackupWriter(source, blobs, FakeClock(), progress=write, version="1.0")
    backup = await writer.write(tmp_path / "one")
    assert (len(written), backup.problems) == (1, ())
    copy, _ = await open_unprepared(f"sqlite:///{tmp_path}/one/penstock.db", "memory:///", LIMITS)
    for rows, expected in (
        ("sessions WHERE title = 'later'", 0),
        ("tasks WHERE title = 'later'", 0),
        ("keys", 1),
    ):
        assert await copy.read(partial(number, rows)) == expected, rows
    await copy.close()


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("UPDATE alembic_version SET version_num = '0001'", ConfigError, "pg_dump --format=custom"),
        ("UPDATE alembic_version SET version_num = '9999'", StoreTooNew, "revision 9999"),
        ("INSERT INTO installation VALUES ('moving', 'x')", ConfigError, "repeat or end it"),
        ("DROP TABLE alembic_version", ConfigError, "there is no project in this database"),
    ],
)
async def test_a_postgres_that_cannot_be_copied_leaves_no_folder(
    source: Database,
    blobs: Blobs,
    tmp_path: Path,
    *,
    statement: str,
    error: type[Exception],
    said: str,
) -> None:
    await source.write(partial(do, statement))
    with pytest.raises(error, match=said):
        await made(source, blobs, tmp_path / "one")
    assert names(tmp_path) == []
