"""Whether a database is sound."""

from pathlib import Path

from sqlalchemy import text

from penstock.store.database import open_database
from penstock.store.health import check, read_back
from penstock.store.tables import REVISION
from tests.kit.server import in_memory


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


async def test_events_that_do_not_read_back_are_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    async with in_memory(url=url) as runtime:
        reply = await runtime.chat("Hi")
    database = await open_database(url)
    read, broken = await read_back(database)
    assert (read > 3, broken) == (True, ())
    await database.write(
        lambda each: each.execute(text("UPDATE events SET body = '{bro' WHERE seq = 3"))
    )
    assert await read_back(database) == (read, (f"event 3 of log {reply.session_id!r}",))
    assert (await read_back(database, most=1))[0] == 1
    await database.close()
