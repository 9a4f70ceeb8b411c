"""What a database names, and whether its lists follow from its logs."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import ArtifactId, BlobId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.upkeep.contents import drifted, named_blobs
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import ONE, ended, held, live_a_little, note

FILE = "INSERT INTO files VALUES ('profile', 'ann', :path, :blob, 1, 0)"
MEDIUM = "INSERT INTO media VALUES ('upload_1', 'ann', :blob, 'image/png', 1, NULL, 9)"


def kept(artifact: BlobId, output: str) -> Entry:
    """An outcome that names a blob; a long output makes it a blob itself."""
    event = CallSettled(
        tool_id="t",
        envelope=Envelope.success(output),
        artifact_id=ArtifactId("a_1"),
        artifact_blob=artifact,
    )
    return Entry(event, ONE, CallPath("task_1/1/t#ab"))


def do(statement: str, values: dict[str, object], connection: Connection) -> None:
    connection.execute(text(statement), values)


async def test_every_reference_to_a_blob_is_found(
    database: Database, log: SqlLog, blobs: Blobs
) -> None:
    """In a small body, in a body that is a blob, as a body, in a file and in a medium."""
    one, two, three = [await blobs.put(each) for each in (b"one", b"two", b"three")]
    lease = await held(log)
    await log.append(lease, [kept(one, "short"), kept(two, "x" * 500), note("y" * 500)])
    await log.append(lease, [note(f"this text has a hash {three}")])
    await database.write(partial(do, FILE, {"path": b"a", "blob": one}))
    await database.write(partial(do, MEDIUM, {"blob": three}))
    large = await database.read(
        lambda each: (
            each.execute(text("SELECT blob_id FROM events WHERE blob_id IS NOT NULL"))
            .scalars()
            .all()
        )
    )
    assert len(large) == 2
    expected = Counter({one: 2, two: 1, three: 1}) + Counter(large)
    assert await named_blobs(database, blobs) == expected


async def test_a_lost_body_is_named_although_its_content_is_not_known(
    database: Database, log: SqlLog, blobs: Blobs
) -> None:
    one = await blobs.put(b"one")
    await log.append(await held(log), [kept(one, "x" * 500)])
    (large,) = (await named_blobs(database, blobs)).keys() - {one}
    await blobs.delete(large)
    assert await named_blobs(database, blobs) == {large: 1}


async def test_lists_that_follow_from_their_logs_have_not_drifted(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock
) -> None:
    await live_a_little(log, clock)
    assert await drifted(database, blobs, most_events=100) == (3, [])
    assert (await drifted(database, blobs, most_events=1))[0] == 1


DRIFTS = {
    "UPDATE tasks SET messages = 9 WHERE task_id = 'task_3'": (
        "task task_3 of log 'conv_1': messages is 9, the log gives 1"
    ),
    "UPDATE sessions SET title = 'Odd' WHERE session_id = 'conv_1'": (
        "conversation conv_1 of log 'conv_1': title is 'Odd', the log gives 'A title'"
    ),
    "DELETE FROM questions": "question q_1 of log 'conv_1': is missing",
    "UPDATE tasks SET task_id = 'task_9' WHERE task_id = 'task_3'": (
        "task task_9 of log 'conv_1': is in the list, but not in the log"
    ),
    "UPDATE logs SET head = head + 1 WHERE log_id = 'conv_1'": (
        "log 'conv_1' has 13 events in place of 14"
    ),
    "UPDATE events SET body = '{' WHERE log_id = 'conv_1' AND seq = 2": (
        "event 2 of log 'conv_1' cannot be read"
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DRIFTS.items(), ids=list(DRIFTS))
async def test_a_row_that_does_not_follow_from_its_log_is_named(
    damage: str, expected: str, tmp_path: Path, blobs: Blobs, clock: FakeClock
) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/one.db", limits=Limits())
    await live_a_little(SqlLog(database, blobs, clock), clock)
    await database.write(partial(do, damage, {}))
    _, found = await drifted(database, blobs, most_events=100)
    await database.close()
    assert any(each.startswith(expected) for each in found), found


async def test_an_ended_task_has_not_drifted_while_its_log_grows(
    database: Database, log: SqlLog, blobs: Blobs
) -> None:
    lease = await held(log)
    await log.append(lease, [ended()])
    assert await drifted(database, blobs, most_events=100) == (1, [])
