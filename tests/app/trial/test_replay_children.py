"""A replay of a script that asks for child tasks: whatever it asks for now, no task changes."""

from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.core.ids import TaskId
from penstock.core.limits import Limits
from penstock.core.task import TaskStatus
from penstock.models.scripted import Hold, ScriptedModel, wait
from penstock.testing.runtime import MemoryStorage
from tests.kit.children import below, until
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage

TASK = TaskId("task_plan")
CHILD = """
    const child = (key: string) => flo.task.spawn({
      key, title: key, objective: "Hang", input: null, input_schema: {}, output_schema: null,
    });
    export async function run() { const first = await child("first"); """
WORKER = '{ worker_kind: "extractor", title: "t", objective: "Hang", input: 1 }'
AFTER = "[{ task_id: first.task_id, alias: 'first' }]"
NOW = {
    "cancels": ("await flo.task.cancel({ task_id: first.task_id });", "would be cancelled now"),
    "requests": ('await child("second");', "would be requested now"),
    "requests several": (
        f"await flo.task.spawnChildren({{ children: [{WORKER}] }});",
        "would be requested now",
    ),
    "waits": (
        f"await flo.task.waitForDependencies({{ key: 'w', dependencies: {AFTER} }});",
        "would be awaited now",
    ),
}


def stage(project: ProjectFolder, place: MemoryStorage, more: str) -> Stage:
    """Return the project with a script that requests a child, and does more."""
    project.tool("plan", f"{CHILD} {more} return 1; }}")
    return Stage(project, place=place)


async def written(runtime: Runtime) -> dict[str, int]:
    """The number of events of the child, and of the task."""
    log, tasks = runtime.parts.storage.log, await below(runtime, TASK)
    ids = {name: each.log_id for name, each in tasks.items()}
    return {name: await log.head(log_id) for name, log_id in ids.items()}


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("name", NOW)
async def test_a_changed_script_ends_the_replay_and_changes_no_task(
    project: ProjectFolder, name: str, live: bool
) -> None:
    more, summary = NOW[name]
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    model: Any = ScriptedModel({"Hang": [wait(Hold())]})
    async with stage(project, place, "").opened(model=model) as runtime:
        assert (await runtime.call("plan", {}, task_id=TASK)).ok
        await until(runtime, TASK, TaskStatus.RUNNING, 1)
        before = await written(runtime)
        async with stage(project, place, more).opened(model=ScriptedModel([])) as other:
            report = await other.replay(TASK, live=live)
        assert report.difference is not None
        assert summary in report.difference.summary
        assert await written(runtime) == before
