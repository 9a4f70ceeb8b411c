"""The contract of the files of every workspace."""

import pytest
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import ToolFailed
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import BlobId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import BEFORE, FileChange, WorkspaceChange, name_of
from penstock.resources.workspace import Files, WorkspaceFile
from penstock.store.logs.log import Lease, Log
from penstock.testing.clock import START, FakeClock
from tests.kit.log_entries import CHAT, ONE, ended, held, started

TALK = Scope(ScopeKind.SESSION, CHAT)
MINE = Scope(ScopeKind.TASK, ONE)
BYTES = BlobId("a" * 64)


def write(path: str, *, scope: Scope = TALK, size: int = 1, replaces: bool = True) -> FileChange:
    return FileChange(scope=scope, path=path, blob_id=BYTES, size=size, replaces=replaces)


def remove(path: str) -> FileChange:
    return FileChange(scope=TALK, path=path, blob_id=None)


async def make(files: Files, *changes: FileChange) -> None:
    await files.make(WorkspaceChange(files=changes))


async def paths(files: Files, directory: str = "", scope: Scope = TALK) -> list[str]:
    return [each.path for each in await files.below(scope, directory, most=100)]


async def refusal(files: Files, *changes: FileChange) -> str:
    with pytest.raises(ToolFailed) as refused:
        await make(files, *changes)
    assert refused.value.details is not None
    return str(refused.value.details["reason"])


def recorded(*changes: FileChange) -> Entry:
    """The record of a built-in that succeeds if its files can be written."""
    envelope = Envelope.success({"path": "x"})
    event = CallSettled(tool_id="write_text_file", envelope=envelope, context='{"path":"x"}')
    return Entry(event, ONE, CallPath("task_1/1/write#ab"), WorkspaceChange(files=changes))


async def test_a_file_is_in_exactly_one_tree(files: Files, clock: FakeClock) -> None:
    """W1: "They are two separate trees"."""
    await make(files, write("a/b", size=3))
    found = WorkspaceFile(path="a/b", blob_id=BYTES, size=3, modified_at=START)
    assert await files.find(TALK, "a/b") == found
    assert await files.find(MINE, "a/b") is None
    assert await files.find(TALK, "a") is None


async def test_a_directory_lists_only_its_own_entries(files: Files) -> None:
    names = ("a/b/c", "a/b.x", "a/b/d/e", "a/é", "a!", "ab")
    await make(files, *map(write, names))
    children = await files.children(TALK, "a", most=10)
    found = [(each.name, each.file is not None) for each in children]
    assert sorted(found) == [("b", False), ("b.x", True), ("é", True)]
    assert len(await files.children(TALK, "a", most=2)) == 2
    assert [each.name for each in await files.children(TALK, "", most=10)] == ["a!", "a", "ab"]
    assert await paths(files, "a/b") == ["a/b/c", "a/b/d/e"]
    assert await files.children(TALK, "nothing", most=10) == []


REFUSED = [
    (write("a/b"), "not_a_directory"),
    (write("a/b/c/d"), "not_a_directory"),
    (write("d"), "is_directory"),
    (write(""), "is_directory"),
    (write("a", replaces=False), "exists"),
    (write("x", size=11), "too_large"),
    (remove("x"), "not_found"),
    (remove("d"), "not_found"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED)
async def test_an_impossible_change_is_refused_with_a_reason(
    files: Files, change: FileChange, reason: str
) -> None:
    """W5: "A file in the place of a directory, or the reverse"."""
    await make(files, write("a"), write("d/e"))
    assert await refusal(files, change) == reason
    assert await paths(files) == ["a", "d/e"]


async def test_files_are_written_together_or_not_at_all(files: Files) -> None:
    assert await refusal(files, write("a"), remove("x")) == "not_found"
    assert await paths(files) == []
    await make(files, write("a"), write("b"))
    await make(files, remove("a"), write("a/x"))
    assert await paths(files) == ["a/x", "b"]


async def test_a_full_tree_takes_no_more(files: Files) -> None:
    for name in ("a", "b"):
        await make(files, write(name, scope=MINE, size=10))
    assert await refusal(files, write("c", scope=MINE, size=6)) == "quota"
    await make(files, write("b", scope=MINE, size=4))
    await make(files, write("c", scope=MINE, size=6))
    await make(files, write("c", size=6))


async def test_files_and_the_record_of_their_call_are_one(log: Log, files: Files) -> None:
    """Effect `s`: "in the same transaction as its `call_settled`, so it happens exactly once"."""
    lease = await held(log)
    (record,) = await log.append(lease, [recorded(write("a"), write("t", scope=MINE))])
    assert isinstance(record.event, CallSettled)
    assert record.event.envelope.output == {"path": "x"}
    assert (await paths(files), await paths(files, scope=MINE)) == (["a"], ["t"])


async def test_a_call_whose_files_cannot_be_written_fails(log: Log, files: Files) -> None:
    lease = await held(log)
    await make(files, write("a"))
    (record,) = await log.append(lease, [recorded(write("b"), write("a/c"))])
    assert isinstance(record.event, CallSettled)
    assert record.event.envelope.error is not None
    assert record.event.envelope.error.details == {"reason": "not_a_directory"}
    said = '{"error":"\'a\' is a file, not a directory","code":"TOOL_FAILED",'
    assert record.event.context == said + '"details":{"reason":"not_a_directory"}}'
    assert await paths(files) == ["a"]
    assert (await log.read(CHAT))[-1] == record


async def test_files_of_a_task_go_with_it_and_those_of_its_conversation_stay(
    log: Log, files: Files
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), recorded(write("a"), write("t", scope=MINE)), ended()])
    assert (await paths(files), await paths(files, scope=MINE)) == (["a"], [])


def of(letter: str, path: str = "a", *, size: int = 5) -> FileChange:
    """A change that writes bytes whose id is one letter."""
    return FileChange(scope=TALK, path=path, blob_id=BlobId(letter * 64), size=size)


KEPT = TALK.part(BEFORE)


async def replaced(log: Log, lease: Lease, *changes: FileChange) -> list[tuple[str | None, ...]]:
    (record,) = await log.append(lease, [recorded(*changes)])
    assert isinstance(record.event, CallSettled)
    return [
        (each.was and each.was[0], each.left and each.left[0]) for each in record.event.replaced
    ]


async def test_a_call_records_what_it_replaced_and_its_bytes_are_kept(
    log: Log, files: Files
) -> None:
    """Of a conversation, for undos; not of a task, whose files are deleted at its end."""
    lease = await held(log)
    assert await replaced(log, lease, of("a")) == [(None, "a")]
    assert await replaced(log, lease, of("b"), of("c", "c")) == [("a", "b"), (None, "c")]
    assert await replaced(log, lease, remove("a")) == [("b", None)]
    kept = await files.find(KEPT, name_of(BlobId("a" * 64)))
    assert kept is not None
    assert (kept.blob_id, kept.size) == ("a" * 64, 5)
    assert await replaced(log, lease, write("t", scope=MINE), write("t", scope=MINE)) == [
        (None, "a"),
        ("a", "a"),
    ]
    assert await paths(files, scope=KEPT) == ["a" * 32, "b" * 32]


async def test_of_replaced_files_the_newest_are_kept(log: Log, files: Files) -> None:
    """At most `limits.undo_bytes`, 12 here; equal bytes are kept once."""
    lease = await held(log)
    for letter in "abcad":
        await replaced(log, lease, of(letter))
    assert await paths(files, scope=KEPT) == ["a" * 32, "c" * 32]
    await replaced(log, lease, of("e", "e", size=10), of("f", "e", size=1))
    assert await paths(files, scope=KEPT) == ["e" * 32]
    await make(files, of("g", "e"))
    assert await paths(files, scope=KEPT) == ["e" * 32]


async def test_a_change_that_expects_other_bytes_is_refused(files: Files) -> None:
    await make(files, of("a"))
    for expected in (("b" * 32,), (None,)):
        assert await refusal(files, replace(of("c"), expected=expected)) == "changed"
    await make(files, replace(of("c"), expected=("a" * 32,)))
    there = await files.find(TALK, "a")
    assert there is not None
    assert there.blob_id == "c" * 64
