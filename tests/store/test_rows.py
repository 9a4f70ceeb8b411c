"""Events as rows, and back."""

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import StoreCorrupt
from penstock.core.events import Entry, NoteEmitted, Record
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.store.blobs import Blobs
from penstock.store.rows import Row, Rows, record_of, records_of

LOG = LogId("conv_1")
AT = Moment(5)
EMPTY = len('{"event_type":"t","message":""}')


def note(text: str) -> Entry:
    return Entry(NoteEmitted(event_type="t", message=text), TaskId("task_1"))


@pytest.fixture
def rows(blobs: Blobs) -> Rows:
    return Rows(blobs, body_bytes=EMPTY + 10)


SIZES = [("x" * 10, True), ("x" * 11, False), ("é" * 5, True), ("é" * 6, False)]


@pytest.mark.parametrize(("text", "stays"), SIZES)
async def test_a_body_over_its_limit_in_bytes_goes_to_the_blobs(
    rows: Rows, text: str, *, stays: bool
) -> None:
    drafts = rows.drafts([note(text)], AT)
    assert rows.are_small(drafts) is stays
    ((*_, body, blob_id),) = await rows.put_away(drafts)
    assert (blob_id is None, body != "") == (stays, stays)


async def test_large_and_small_bodies_read_back_alike(rows: Rows) -> None:
    entries = [note("small"), note("x" * 100), note("é" * 100)]
    drafts = await rows.put_away(rows.drafts(entries, AT))
    stored: list[Row] = [(seq, *draft) for seq, draft in enumerate(drafts, 1)]
    expected = [
        Record(LOG, seq, AT, entry.task_id, None, entry.event)
        for seq, entry in enumerate(entries, 1)
    ]
    assert await rows.records(LOG, stored) == expected
    assert records_of(LOG, stored) is None, "some bodies are elsewhere"
    assert records_of(LOG, stored[:1]) == expected[:1]


BROKEN = [("note_emitted", "{"), ("note_emitted", "[]"), ("note_emitted", "{}"), ("no_kind", "{}")]


@pytest.mark.parametrize(("kind", "body"), BROKEN)
def test_a_row_that_does_not_read_back_is_named(kind: str, body: str) -> None:
    with pytest.raises(StoreCorrupt, match="event 7 of log 'conv_1' does not read back"):
        record_of(LOG, (7, AT, None, None, kind, body, None))


async def test_a_row_whose_blob_is_gone_is_named(rows: Rows) -> None:
    gone: Row = (7, AT, None, None, "note_emitted", "", BlobId("0" * 64))
    with pytest.raises(StoreCorrupt, match=r"event 7 of log 'conv_1'.*no blob"):
        await rows.records(LOG, [gone])
