"""The process dies at every write; a secret that was read before is redacted afterwards."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import TaskReply
from penstock.core.envelope import Json
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.flows.steps.kind import CodeEnvironment
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.tools.invocation import Invocation
from tests.kit import dying_log, flows
from tests.kit.code_environment import place_of
from tests.kit.dying_log import DyingLog, live
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
WORD, OWN = "s3cr3t-value", Scope(ScopeKind.PROFILE, "local")
KEEP = """
    export async function run() {
      const word = await flo.vault.get({ scope: "profile", key: "token" });
      await flo.callTool({ tool_id: "put", input: { word } });
    }
"""
STORY = """
    const call = (tool_id) => flo.callTool({ tool_id, input: {} });
    export default async () => {
      await call("keep");
      await flo.task.waitForUserMessage({ user_message: "Go on?" });
      return { found: (await call("look")).output };
    };
"""
STEP = "  - {id: story, type: code, outputs: [found], tools: [keep, put, look]}"
Tell = Callable[[Runtime], Awaitable[TaskReply]]


def chat(runtime: Runtime) -> Awaitable[TaskReply]:
    return dying_log.see_through(runtime, "Go", lambda _: {"text": "yes"})


def flow(runtime: Runtime) -> Awaitable[TaskReply]:
    return flows.see_through(runtime, {"text": "yes"}, task="x")


def stage_of(
    project: ProjectFolder, code_environment: CodeEnvironment, log: DyingLog, clock: FakeClock
) -> Stage:
    """Return a script that gets a secret and hands it to a tool, and one that reads it again."""
    kept: list[str] = []

    async def put(input: Json, invocation: Invocation) -> Any:
        kept.append(input["word"])

    async def look(input: Json, invocation: Invocation) -> Any:
        return kept[-1]

    project.tool("keep", KEEP, vault="[{key: token, scope_kinds: [profile]}]")
    limits = Limits(shutdown_seconds=0)
    place = place_of(
        code_environment, STEP, {"story.js": STORY}, clock=clock, log=log, limits=limits
    )
    acts = (Act("put", put, direct_call=True), Act("look", look, direct_call=True))
    return Stage(project, *acts, place=place, global_tools=["keep"])


@pytest.mark.parametrize("tell", [chat, flow])
@pytest.mark.parametrize("writes", range(1, 15))
async def test_the_next_process_redacts_the_secrets_that_the_dead_one_read(
    project: ProjectFolder, code_environment: CodeEnvironment, tell: Tell, writes: int
) -> None:
    """V5, in a conversation and in a run of a flow: the note of the key is in the log first."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=False)
    stage = stage_of(project, code_environment, log, clock)
    await stage.place.vault.set(OWN, "token", WORD)
    items = [call("keep"), call("ask_user", question="Go on?"), call("look"), say("Done.")]
    model, reply = ScriptedModel({"Go": items}), None
    while reply is None:
        async with stage.opened(model=model) as runtime:
            reply = await live(runtime, log, tell(runtime))
        log.revive()
        clock.advance(stage.place.limits.lease_seconds + 1)
    (task,), _ = await log.tasks(page=Page())
    records = repr(await log.read(task.log_id))
    for place in (records, repr(reply), repr(model.requests)):
        assert WORD not in place
    assert "[secret:token]" in records
