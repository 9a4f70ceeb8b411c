"""Scripts share work by `flo.dispatcher`: over processes, crashes and leases that end."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

AT = 'const at = { dispatcher_id: "mail" };'
FILL = f"""
    {AT}
    export async function run({{ keys }}: {{ keys: string[] }}) {{
      const subjects = keys.map((subject_key) => ({{ subject_key, meta: {{ to: subject_key }} }}));
      return (await flo.dispatcher.syncSubjects({{ ...at, subjects }})).dispatcher;
    }}
"""
WORK = f"""
    {AT}
    export async function run() {{
      const {{ subjects }} = await flo.dispatcher.claimDueSubjects(
        {{ ...at, lease_ms: 60_000, limit: 3 }});
      const ends = [];
      for (const {{ subject_key, revision }} of subjects) {{
        const sent = await flo.callTool({{ tool_id: "send", input: {{ to: subject_key }} }});
        const mine = {{ ...at, subject_key, revision }};
        const error = {{ code: sent.error?.code ?? "", message: "not sent" }};
        const end = sent.status === "success"
          ? await flo.dispatcher.completeSubject({{ ...mine, cursor: "sent" }})
          : await flo.dispatcher.failSubject({{ ...mine, error }});
        ends.push([subject_key, end.status]);
      }}
      return ends;
    }}
"""


def write_tools(project: ProjectFolder) -> None:
    schema = "{type: object, properties: {keys: {type: array, items: {type: string}}}}"
    project.tool("fill", FILL, input_schema=schema)
    project.tool("work", WORK)


async def test_two_processes_share_the_subjects_and_each_is_done_once(
    project: ProjectFolder,
) -> None:
    write_tools(project)
    project.tool("send", "export const run = ({ to }: any) => to;", effect="write")
    keys = [f"{number:02}" for number in range(20)]
    async with project.opened() as first, project.opened() as second:
        filled = await first.call("fill", {"keys": keys})
        assert filled.ok, filled.error
        calls = [runtime.call("work", {}) for runtime in (first, second) for _ in range(4)]
        envelopes = await asyncio.gather(*calls)
        assert (await second.call("work", {})).output == []
    ends: list[Any] = [end for each in envelopes for end in each.output]
    assert sorted(key for key, _ in ends) == keys
    assert {status for _, status in ends} == {"succeeded"}


async def test_the_work_of_a_process_that_died_is_done_after_its_lease(
    project: ProjectFolder,
) -> None:
    write_tools(project)
    clock = FakeClock()
    place = MemoryStorage(clock=clock, limits=Limits(shutdown_seconds=0))
    send = Act("send", echo, direct_call=True, effect=Effect.WRITE)
    held = 'flo.dispatcher.claimDueSubjects({ dispatcher_id: "mail", lease_ms: 60_000 })'
    project.tool("hold", f"export const run = async () => (await {held}).subjects.length;")
    stage = Stage(project, send, place=place)
    await stage.output("fill", {"keys": ["a", "b"]})
    assert await stage.output("hold") == 2
    assert await stage.output("work") == []
    clock.advance(60)
    assert await stage.output("work") == [["a", "succeeded"], ["b", "succeeded"]]
    assert Counter(each["to"] for each in send.runs) == {"a": 1, "b": 1}


async def test_the_script_of_the_page_does_what_it_says(project: ProjectFolder) -> None:
    page = (Path(penstock.__file__).parents[1] / "docs/tasks.md").read_text("utf-8")
    source = page.partition("## Work that is due")[2].partition("```typescript\n")[2]
    project.tool("fetch_feeds", source.partition("```")[0])
    read = "export const run = ({ feed, since }: any) => ({ newest: (since ?? 0) + 1 });"
    project.tool("read_feed", read, effect="read")
    clock = FakeClock()
    stage = Stage(project, place=MemoryStorage(clock=clock))
    assert await stage.output("fetch_feeds") == ["news", "sport"]
    assert await stage.output("fetch_feeds") == []
    clock.advance(900)
    assert await stage.output("fetch_feeds") == ["news", "sport"]


WRITES = 18
"""The most writes of the story when no process dies: adjacent events share one."""


def told(project: ProjectFolder, writes: int, *, before: bool) -> tuple[Stage, Act]:
    """Return a story with a log that dies, and the tool that does the work."""
    write_tools(project)
    call = "flo.callTool({ tool_id, input })"
    project.tool(
        "story",
        f"""
        const made = async (tool_id: string, input: any) => (await {call}).output;
        export async function run() {{
          await made("fill", {{ keys: ["a", "b"] }});
          return [await made("work", {{}}), await made("work", {{}})];
        }}
        """,
        script_tools="[fill, work]",
    )
    clock, send = FakeClock(), Act("send", echo, direct_call=True, effect=Effect.WRITE)
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    return Stage(project, send, place=place), send


@pytest.mark.programs
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_worker_killed_at_any_write_loses_nothing_and_does_nothing_twice(
    project: ProjectFolder, writes: int, *, before: bool
) -> None:
    stage, send = told(project, writes, before=before)
    ends, rest = (await stage.survive("story", {})).output
    assert (rest, [key for key, _ in ends]) == ([], ["a", "b"])
    runs = Counter(each["to"] for each in send.runs)
    for key, status in ends:
        assert status in {"succeeded", "failed"}
        assert (status == "succeeded") <= runs[key] <= 1


@pytest.mark.programs
async def test_every_write_of_the_story_is_tried(project: ProjectFolder) -> None:
    stage, _ = told(project, -1, before=False)
    ends, _ = (await stage.survive("story", {})).output
    assert ends == [["a", "succeeded"], ["b", "succeeded"]]
    assert isinstance(log := stage.place.log, DyingLog)
    assert 12 <= log.writes <= WRITES
