"""What calls reach, and what they are told where nothing is set up."""

import pytest

from penstock.core.call_errors import ToolNotConfigured
from penstock.core.ids import LogId, TaskId, new_id
from penstock.core.limits import Limits
from penstock.core.paths import parse_path
from penstock.core.scope import Scope, ScopeKind
from penstock.store.blobs import open_blobs
from penstock.testing.invocation import open_workbench
from penstock.tools.artifacts import Artifacts
from penstock.tools.python.function import tool
from penstock.tools.resources import Resources


@tool(effect="none")
async def look() -> str:
    """Look."""
    return ""


async def test_the_two_trees_are_of_the_task_and_of_its_conversation() -> None:
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
