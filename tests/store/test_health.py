"""Whether a database is sound."""

from pathlib import Path

from penstock.store.database import open_database
from penstock.store.health import check
from penstock.store.tables import REVISION


async def test_a_new_database_is_sound_and_empty(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/new.db")
    health = await check(database)
    await database.close()
    assert (health.revision, health.logs, health.events, health.problems) == (REVISION, 0, 0, ())


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    await (await open_database(f"sqlite:///{path}")).close()
    pages = bytearray(path.read_bytes())
    pages[-2048:] = b"\xff" * 2048
    path.write_bytes(pages)
    database = await open_database(f"sqlite:///{path}")
    health = await check(database)
    await database.close()
    assert health.problems
