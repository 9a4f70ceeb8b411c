"""The child tasks of a call, where the runtime has none, and their places in the tree."""

import pytest

from penstock.core.call_errors import ToolNotConfigured
from penstock.testing.invocation import open_workbench
from penstock.tools.tasks.child_forms import NewChild
from penstock.tools.tasks.child_tasks import Spawner
from tests.kit.tools import Act


async def test_a_runtime_without_child_tasks_says_so() -> None:
    bench = await open_workbench(tool := Act("plan"))
    with pytest.raises(ToolNotConfigured, match="no child tasks"):
        _ = Spawner(bench.invocation(tool)).port


async def test_a_child_is_described_with_its_place_in_the_tree() -> None:
    bench = await open_workbench(tool := Act("plan"))
    invocation = bench.invocation(tool)
    child = Spawner(invocation).described(NewChild(objective="Find it", title="It", key="a"))
    task_id = invocation.ledger.task.task_id
    assert (child.parent, child.root, child.depth) == (task_id, task_id, 1)
    assert (child.title, child.objective, child.key) == ("It", "Find it", "a")
