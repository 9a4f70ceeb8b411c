"""Which blobs events name, and which runs belong to a log."""

import asyncio
from functools import partial
from typing import get_args, get_type_hints

import pytest

from penstock.core.envelope import Envelope
from penstock.core.events.codec import encode
from penstock.core.events.events import CallSettled, Event, NoteEmitted, StoredFile
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.references import erased_since, files_of, named_in, waiter_of
from tests.kit.entries import opened

ONE, TWO = BlobId("1" * 64), BlobId("2" * 64)
FILE = StoredFile(blob_id=ONE, mime_type="text/plain", size=1, is_image=False)
SETTLED = CallSettled(
    tool_id="t", envelope=Envelope.success(None), files=(FILE,), artifact_blob=TWO
)
TALK = LogId("conv_1")
ASKED = FlowRequested(
    command="look", profile_id=ProfileId("ann"), waiter_log=TALK, waiter=TaskId("task_1")
)


def test_an_outcome_names_its_files_and_its_whole_output() -> None:
    assert files_of(SETTLED) == named_in("call_settled", encode(SETTLED)) == {ONE, TWO}
    assert files_of(NoteEmitted(event_type="t")) == set()


def test_what_a_broken_body_names_is_found_by_its_form() -> None:
    assert named_in("call_settled", f'{{"broken": "{ONE}') == {ONE}


def test_no_other_kind_of_event_names_a_blob() -> None:
    """`files_of` looks at outcomes alone."""
    naming = {
        kind
        for kind in get_args(Event)
        if any("BlobId" in str(each) or "StoredFile" in str(each) for each in hints_of(kind))
    }
    assert naming == {CallSettled}


def hints_of(kind: type) -> list[object]:
    return list(get_type_hints(kind).values())


@pytest.mark.parametrize(
    ("body", "waiter"),
    [
        (encode(ASKED), ("conv_1", "task_1")),
        ('{"command":"look","profile_id":"ann","task":"conv_1"}', (None, None)),
        ("", (None, None)),
        ("broken", (None, None)),
    ],
)
def test_a_run_belongs_to_the_call_that_waits_for_it(
    body: str, waiter: tuple[str | None, str | None]
) -> None:
    assert waiter_of("flow_requested", body) == waiter
    assert waiter_of("note_emitted", '{"event_type":"conv_1"}') == (None, None)


async def test_any_number_of_logs_is_compared_with_what_is_known_of_them(
    log: SqlLog, database: Database
) -> None:
    many = [LogId(f"conv_{number}") for number in range(1100)]
    await asyncio.gather(*(log.send(each, [opened()]) for each in many[1:]))
    assert await database.read(partial(erased_since, dict.fromkeys(many, 0))) == {many[0]}
