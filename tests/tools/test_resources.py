"""The resources of calls, and the errors where none are configured."""

from pathlib import Path

import pytest

from penstock.core.call_errors import CallError, ToolNotConfigured
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind, parse_path
from penstock.resources.project.access import Access
from penstock.store.blobs import open_blobs
from penstock.testing.invocation import open_workbench
from penstock.tools.artifacts import Artifacts
from penstock.tools.python.function import tool
from penstock.tools.resources import ProjectFolder, Resources


@tool(effect="none")
async def look() -> str:
    """Look."""
    return ""


async def test_a_workspace_has_the_trees_of_the_task_and_its_conversation() -> None:
    resources = (await open_workbench()).resources
    workspace = resources.workspace(LogId("conv_1"), TaskId("task_1"), Limits())
    assert workspace is not None
    scopes = [workspace.scope(parse_path(each)) for each in ("task://a", "session://a")]
    assert scopes == [Scope(ScopeKind.TASK, "task_1"), Scope(ScopeKind.SESSION, "conv_1")]


async def test_a_call_without_files_is_not_configured() -> None:
    bench = await open_workbench(look)
    artifacts = Artifacts(open_blobs("memory:///"), bench.world.limits, new_id)
    bench.resources = Resources(artifacts=artifacts)
    with pytest.raises(ToolNotConfigured):
        bench.invocation(look).workspace.scope(parse_path("task://a"))


def test_an_agent_sees_no_private_or_forbidden_files(
    tmp_path: Path,
) -> None:
    for name in ("a.txt", "own/key", "src/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    folder = ProjectFolder(root=tmp_path, private=("own",))
    files = folder.files(Access(read=("src/**", "own/**")))
    assert files.read(files.at("src/b.txt"), most=100) == b"src/b.txt"
    for name in ("a.txt", "own/key"):
        with pytest.raises(CallError):
            files.readable(name)
