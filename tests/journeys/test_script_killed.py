"""The process dies at every write of a script; each effect still happens once."""

from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

pytestmark = pytest.mark.programs
STORY = """
    const call = (tool_id: string, more = {}) => flo.callTool({ tool_id, input: {}, ...more });
    const list = { scope_kind: "shared", key: "n.list" } as const;
    export async function run() {
      console.log("begun");
      const [look, send, post, put] = await Promise.all([
        call("look"), call("send"), call("post"), flo.state.append({ ...list, item: 1 })]);
      const pending = await call("later", { wait: false });
      const said = await flo.task.waitForUserMessage({ user_message: "Go on?" });
      const later = await call("later");
      const made = await flo.task.step({ key: "k", version: 1, input: null }, async () => 7);
      const kept = (await flo.state.get<number[]>(list))?.value;
      console.log("done");
      return { look: look.status, put: put.ok, kept, made, said: said.user_message,
        pending: pending.status,
        writes: [send, post, later].map((r) => r.error?.code ?? r.status) };
    }
"""
WRITES = 26
"""The most commits of the story when no process dies: adjacent events share one."""


def told(project: ProjectFolder, writes: int, *, before: bool) -> tuple[Stage, dict[str, Act]]:
    """Return the story, with a log that dies, and those who take part."""
    spec: dict[str, Any] = {"effect": Effect.WRITE, "direct_call": True}
    cast = {
        "look": Act("look", echo, direct_call=True),
        "post": Act("post", echo, **spec),
        "send": Act("send", echo, requires_approval=True, **spec),
        "later": Act("later", echo, requires_approval=True, **spec),
    }
    state = "[{name: n, key_prefix: n., scope_kind: shared, scope_id: all}]"
    project.tool("story", STORY, state=state)
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    return Stage(project, *cast.values(), place=place), cast


async def test_the_story_without_a_crash(project: ProjectFolder) -> None:
    stage, cast = told(project, -1, before=False)
    output = (await stage.survive("story", {})).output
    assert output == {
        "look": "success",
        "put": True,
        "kept": [1],
        "made": 7,
        "said": "yes",
        "pending": "suspended",
        "writes": ["success"] * 3,
    }
    assert [len(each.runs) for each in cast.values()] == [1, 1, 1, 1]
    assert await stage.printed() == ["begun", "done"]
    log = stage.place.log
    assert isinstance(log, DyingLog)
    assert 18 <= log.writes <= WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(2, WRITES + 1))
async def test_a_story_killed_at_any_write_ends_the_same(
    project: ProjectFolder, writes: int, *, before: bool
) -> None:
    stage, cast = told(project, writes, before=before)
    output = (await stage.survive("story", {})).output
    assert (output["put"], output["kept"], output["made"]) == (True, [1], 7)
    assert output["pending"] == "suspended"
    for name, status in zip(("send", "post", "later"), output["writes"], strict=True):
        assert status in {"success", "INTERRUPTED"}
        assert (status == "success") <= len(cast[name].runs) <= 1
    printed = await stage.printed()
    assert (printed.count("begun"), printed.count("done")) == (1, 1)
    assert await stage.questions() == []
    assert await stage.notes("script.diverged") == []
