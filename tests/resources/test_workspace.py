"""The two trees of a call, on the blob store."""

import pytest

from penstock.core.call_errors import ToolFailed
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind, parse_path
from penstock.resources.workspace import Workspace
from penstock.store.blobs import open_blobs
from penstock.testing.clock import FakeClock
from penstock.testing.resources import MemoryChanges, MemoryFiles

LIMITS = Limits(file_bytes=100)
OWNERS = {
    ScopeKind.TASK: Scope(ScopeKind.TASK, "task_1"),
    ScopeKind.SESSION: Scope(ScopeKind.SESSION, "conv_1"),
}


@pytest.fixture
def workspace() -> Workspace:
    files = MemoryFiles(MemoryChanges(LIMITS), FakeClock())
    return Workspace(files, open_blobs("memory:///"), OWNERS, LIMITS)


async def write(workspace: Workspace, uri: str, text: str = "x") -> None:
    await workspace.make(await workspace.write(parse_path(uri), text.encode()))


async def reason(workspace: Workspace, uri: str, most: int = 100) -> object:
    with pytest.raises(ToolFailed) as refused:
        await workspace.read(parse_path(uri), most=most)
    return (refused.value.details or {})["reason"]


async def test_a_written_file_is_read_back(workspace: Workspace) -> None:
    await write(workspace, "task://notes/Ärger.txt", "größer")
    path = parse_path("task://notes/A\u0308rger.txt")
    assert await workspace.read(path, most=100) == "größer".encode()
    found = await workspace.file(path)
    assert (found.path, found.size) == ("notes/Ärger.txt", 8)
    assert await workspace.exists(parse_path("task://notes"))
    assert not await workspace.exists(parse_path("session://notes"))


async def test_an_unreadable_path_gives_a_reason(workspace: Workspace) -> None:
    await write(workspace, "task://a/b", "xyz")
    assert await reason(workspace, "task://c") == "not_found"
    assert await reason(workspace, "task://a/b/c") == "not_a_directory"
    assert await reason(workspace, "task://a") == "is_directory"
    assert await reason(workspace, "task://") == "is_directory"
    assert await reason(workspace, "task://a/b", most=2) == "too_large"


async def test_a_file_over_its_limit_is_refused_before_its_bytes_are_kept(
    workspace: Workspace,
) -> None:
    with pytest.raises(ToolFailed, match="a file has at most 100 bytes, 'task://a' has 101"):
        await workspace.write(parse_path("task://a"), b"x" * 101)


async def test_a_directory_is_read_by_name(workspace: Workspace) -> None:
    for uri in ("task://d/b", "task://d/a/x", "task://d/a.b"):
        await write(workspace, uri)
    children, more = await workspace.children(parse_path("task://d"))
    found = [(each.name, each.file is None) for each in children]
    assert (found, more) == ([("a", True), ("a.b", False), ("b", False)], False)
    below = await workspace.below(parse_path("task://d"), most=10)
    assert [each.path for each in below] == ["d/a.b", "d/a/x", "d/b"]
    assert await workspace.children(parse_path("session://")) == ([], False)
    for uri, wanted in (("task://d/b", "not_a_directory"), ("task://x", "not_found")):
        with pytest.raises(ToolFailed) as refused:
            await workspace.children(parse_path(uri))
        assert refused.value.details == {"reason": wanted}


async def test_files_are_copied_between_the_trees_without_their_bytes(
    workspace: Workspace,
) -> None:
    await write(workspace, "task://a", "one")
    source, target = parse_path("task://a"), parse_path("session://exports/a")
    await workspace.make(await workspace.copy(source, target), workspace.remove(source))
    assert await workspace.read(target, most=9) == b"one"
    assert not await workspace.exists(source)
    await write(workspace, "task://a", "two")
    with pytest.raises(ToolFailed, match="there is a file 'exports/a' already"):
        await workspace.make(await workspace.copy(source, target, replaces=False))
