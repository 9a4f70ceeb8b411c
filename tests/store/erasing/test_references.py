"""Which blobs events name, and which runs belong to a log."""

from functools import partial
from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace

from penstock.core.codec import encode
from penstock.core.envelope import Envelope
from penstock.core.events import CallSettled, Entry, Event, NoteEmitted, SessionOpened, StoredFile
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.store.database import Database
from penstock.store.erasing.references import files_of, is_waited_for, named_in, requests_of_runs
from penstock.store.sql_log import SqlLog

ONE, TWO = BlobId("1" * 64), BlobId("2" * 64)
FILE = StoredFile(blob_id=ONE, mime_type="text/plain", size=1, is_image=False)
SETTLED = CallSettled(
    tool_id="t", envelope=Envelope.success(None), files=(FILE,), artifact_blob=TWO
)
TALK, OTHER = LogId("conv_1"), LogId("conv_2")
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
    ("body", "log_id", "task_id", "is_its"),
    [
        (encode(ASKED), TALK, None, True),
        (encode(ASKED), TALK, TaskId("task_1"), True),
        (encode(ASKED), TALK, TaskId("task_2"), False),
        (encode(ASKED), OTHER, None, False),
        ('{"command":"look","profile_id":"ann","task":"conv_1"}', TALK, None, False),
        ("", TALK, None, False),
        ("broken", TALK, None, False),
    ],
)
def test_a_run_belongs_to_the_log_whose_call_waits_for_it(
    body: str, log_id: LogId, task_id: str | None, is_its: bool
) -> None:
    found = is_waited_for(
        "flow_requested", body, log_id, None if task_id is None else TaskId(task_id)
    )
    assert found == is_its


@pytest.mark.parametrize(("asked_by", "found"), [("ann", ["task_run"]), ("bob", [])])
async def test_only_runs_of_the_profile_of_a_log_are_looked_at(
    database: Database, log: SqlLog, asked_by: str, found: list[str]
) -> None:
    """A run of somebody else may name the log; it is none of its own all the same."""
    for name in ("ann", "bob"):
        begun = SessionOpened(profile_id=ProfileId(name), agent="assistant", title="")
        await log.send(LogId(f"conv_{name}"), [Entry(begun)])
    asked = replace(ASKED, profile_id=ProfileId(asked_by), waiter_log=LogId("conv_ann"))
    await log.send(LogId("task_run"), [Entry(asked, TaskId("task_run"))])
    wanted = partial(requests_of_runs, LogId("conv_ann"))
    assert [each.log_id for each in await database.read(wanted)] == found
