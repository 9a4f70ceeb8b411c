"""A secret stays hidden from the log and from models when its task waits or its process dies."""

from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, NewRun
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.visibility import write_skill

pytestmark = pytest.mark.chaos
WORD, OWN = "s3cr3t-value", Scope(ScopeKind.PROFILE, "local")
KEEP = """
    export async function run() {
      const k = await flo.vault.get({ scope: "profile", key: "token" });
      await flo.callTool({ tool_id: "write_text_file", input: { path: "task://a", content: k } });
    }
"""
STORY = """
    const call = (tool_id: string, input: any = {}) => flo.callTool({ tool_id, input });
    export async function run() {
      await call("keep");
      await flo.task.waitForUserMessage({ user_message: "Go on?" });
      const read: any = await call("read_text_file", { path: "task://a" });
      return { read: read.output.content, twice: `${read.output.content}!` };
    }
"""
FLOW = """
name: demo
description: d
steps:
  - {id: story, type: code, outputs: [read], tools: [keep, read_text_file, write_text_file]}
"""
DOORS = ("a conversation", "a direct call", "a command", "a run of a flow")
TASK = TaskId("task_1")


def write(project: ProjectFolder) -> None:
    vault = "[{key: token, scope_kinds: [profile]}]"
    project.tool("keep", KEEP, vault=vault, script_tools="[write_text_file]")
    project.tool("story", STORY, script_tools="[keep, read_text_file, write_text_file]")


def write_all(project: ProjectFolder) -> ScriptedModel:
    """Write the project with all its doors; returns a model that goes the same way."""
    write(project)
    tools = "[keep, ask_user, read_text_file]"
    write_skill(project, "a", tools=tools, script_tools="[write_text_file]")
    project.write("flows/demo.yaml", FLOW)
    project.write("flows/handlers/demo/story.ts", STORY)
    read = call("read_text_file", path="task://a")
    return ScriptedModel({"Go": [call("keep"), call("ask_user", question="?"), read, say("Done.")]})


async def begin(runtime: Runtime, door: str) -> tuple[LogId, TaskId]:
    """Ask for what gets the secret, waits, and reads it again."""
    if door == "a direct call":
        await runtime.call("story", {}, task_id=TASK)
        return LogId(TASK), TASK
    if door == "a run of a flow":
        await runtime.start_flow(NewRun(command="demo"), task_id=TASK)
        return LogId(TASK), TASK
    content = "Go" if door == "a conversation" else "/call story"
    sent = await runtime.requests.send(NewMessage(content=content, selected_skills=("a",)))
    return LogId(sent.session_id), sent.task_id


@pytest.mark.slow("a whole project, opened twice")
@pytest.mark.parametrize("door", DOORS)
async def test_a_secret_is_redacted_after_a_task_resumes_in_another_process(
    project: ProjectFolder, door: str
) -> None:
    """V5: "From the moment a secret is given out, in that task every place that is recorded"."""
    model = write_all(project)
    agents = [Agent("assistant", model=model)]
    async with project.opened(agents=agents) as runtime:
        database_parts = runtime.parts.storage.database_parts
        assert database_parts is not None
        await database_parts.vault.set(OWN, "token", WORD)
        log_id, task_id = await begin(runtime, door)
        reply = await runtime.requests.wait(task_id)
    async with project.opened(agents=agents) as runtime:
        assert reply is not None
        await runtime.requests.answer(reply.questions[0].question.question_id, {"text": "yes"})
        reply = await runtime.requests.wait(task_id)
        records = repr(await runtime.parts.storage.log.read(log_id))
    for place in (records, repr(reply), repr(model.requests)):
        assert WORD not in place
    assert "[secret:token]" in records


def dying(project: ProjectFolder, writes: int, *, before: bool) -> Stage:
    write(project)
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    return Stage(
        project, place=MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    )


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(2, 13))
async def test_a_secret_is_redacted_after_a_crash_at_any_point(
    project: ProjectFolder, writes: int, *, before: bool
) -> None:
    """A settled call is not run again, so what it was given is known from its note alone."""
    stage = dying(project, writes, before=before)
    await stage.place.vault.set(OWN, "token", WORD)
    output: Any = (await stage.survive("story", {})).output
    assert output == {"read": "[secret:token]", "twice": "[secret:token]!"}
    assert WORD not in repr(await stage.events())
