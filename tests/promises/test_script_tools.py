"""The promises of *Nested Tool Calls* about running scripts: each sentence."""

import pytest

from penstock.agents.agent import Agent
from penstock.chat.requests import NewMessage
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo
from tests.kit.visibility import write_skill

FILES = "[read_text_file, write_text_file, read_dir]"
GENERIC = """
    export async function run() {
      const result = await flo.callTool({
        tool_id: "some_tool",
        input: { value: 1 },
      });
      return result;
    }
"""
BRANCH = """
    export async function run() {
      const result = await flo.callTool({
        tool_id: "read_text_file",
        input: { path: "task://notes/summary.txt" },
      });

      if (result.status !== "success") {
        return {
          ok: false,
          status: result.status,
          error: result.error,
        };
      }

      return {
        ok: true,
        content: result.output?.content,
      };
    }
"""


async def test_n01_n15_the_generic_form_runs_as_written(project: ProjectFolder) -> None:
    """Seed N01: "call another runtime tool from your script"; N15: `callTool({tool_id, input})`."""
    some = Act("some_tool", echo, direct_call=True)
    project.tool("ask", GENERIC)
    found = await Stage(project, some).output("ask")
    assert found == {"status": "success", "output": {"value": 1}}
    assert some.runs == [{"value": 1}]


FIVE = """
    const call = (tool_id: string, more = {}) => flo.callTool({ tool_id, input: {}, ...more });
    export const run = async () => [
      await call("works"), await call("fails"), await call("slow"),
      await call("works", { input: { n: "x" } }), await call("guarded", { wait: false }),
    ];
"""


async def test_n16_n17_five_statuses_and_no_other_members(project: ProjectFolder) -> None:
    """Seed N16: "status output error"; N17: "success failed timeout validation_error suspended"."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    works = Act("works", direct_call=True, input_schema=schema)
    guarded = Act("guarded", direct_call=True, requires_approval=True)
    project.tool("fails", 'export const run = () => { throw new Error("no"); };')
    project.tool("slow", "export const run = () => { while (true); };", timeout_ms="50")
    project.tool("five", FIVE)
    found = await Stage(project, works, guarded).output("five")
    statuses = ["success", "failed", "timeout", "validation_error", "suspended"]
    assert [each["status"] for each in found] == statuses
    assert found[0].keys() == {"status", "output"}
    for each in found[1:4]:
        assert each.keys() == {"status", "error"}
    assert found[4].keys() == {"status", "error", "question_id"}
    for each in found[1:]:
        assert {"code", "message", "retryable", "continuable"} <= each["error"].keys()
        assert each["error"].keys() <= {"code", "message", "retryable", "continuable", "details"}


@pytest.mark.parametrize(("retryable", "runs"), [("true", 3), ("false", 1)])
async def test_n18_a_retryable_failure_is_tried_again(
    project: ProjectFolder, retryable: str, runs: int
) -> None:
    """Seed N18: "retryable: whether the failed task/run is eligible for retry"."""
    counted = Act("counted", direct_call=True)
    script = f"""
        export async function run() {{
          await flo.callTool({{ tool_id: "counted", input: {{}} }});
          const {{ call }} = await flo.task.getContext<any>();
          throw new flo.ToolError({{ code: "NO", message: `${{call.attempt}}`,
            retryable: {retryable} }});
        }}
    """
    project.tool("tries", script, retry_policy="{max_attempts: 3, initial_backoff_ms: 0}")
    envelope = await Stage(project, counted).call("tries")
    assert envelope.error
    assert (envelope.error.code, envelope.error.message) == ("NO", str(runs))
    assert len(counted.runs) == runs


@pytest.mark.parametrize(("continuable", "requests"), [("true", 2), ("false", 1)])
async def test_n19_a_failure_may_end_the_turn(
    project: ProjectFolder, continuable: str, requests: int
) -> None:
    """Seed N19: "continuable: whether the model may continue the current turn"."""
    script = f"""
        export const run = () => {{
          throw new flo.ToolError({{ code: "NO", message: "no", continuable: {continuable} }});
        }};
    """
    project.tool("ends", script)
    write_skill(project, "a", tools="[ends]")
    model = ScriptedModel({"Go": [call("ends"), say("Well.")]})
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go", selected_skills=("a",)))
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert len(model.requests) == requests
    assert (reply.error.code if reply.error else None) == (None if requests == 2 else "NO")


async def test_n34_always_branch_on_status(project: ProjectFolder) -> None:
    """Seed N34: "Always branch on status instead of assuming output exists"."""
    project.tool("reads", BRANCH, script_tools=FILES)
    missing = await Stage(project).output("reads")
    assert (missing["ok"], missing["status"]) == (False, "failed")
    assert missing["error"]["code"]
    writes = """
        export const run = async () => {
          const input = { path: "task://notes/summary.txt", content: "All is well." };
          await flo.callTool({ tool_id: "write_text_file", input });
          return (await flo.callTool({ tool_id: "reads", input: {} })).output;
        };
    """
    project.tool("writes", writes, script_tools=FILES)
    assert await Stage(project).output("writes") == {"ok": True, "content": "All is well."}


async def test_n35_n36_caller_and_callee_share_the_task(project: ProjectFolder) -> None:
    """Seed N35: "same runtime tool execution context"; N36: "operate on the current task"."""
    state = "[{name: s, key_prefix: s., scope_kind: session}]"
    callee = """
        export async function run() {
          const input = { path: "task://a.txt", content: "from the callee" };
          const r = await flo.callTool({ tool_id: "write_text_file", input });
          if (r.error) throw new Error(r.error.message);
          await flo.task.putState({ key: "k", value: 1 });
          await flo.state.put({ scope_kind: "session", key: "s.k", value: 2 });
          return await flo.task.getContext<any>();
        }
    """
    caller = """
        export async function run() {
          const mine = await flo.task.getContext<any>();
          const { output, error } = await flo.callTool({ tool_id: "callee", input: {} });
          if (error) throw new Error(error.message);
          const bytes = await flo.fs.readBytes("task://a.txt");
          const found = await flo.state.get<number>({ scope_kind: "session", key: "s.k" });
          return [mine.task_id === output.task_id, mine.session_id === output.session_id,
            new TextDecoder().decode(bytes), await flo.task.getState({ key: "k" }), found?.value];
        }
    """
    project.tool("callee", callee, state=state)
    project.tool("caller", caller, state=state, script_tools=FILES)
    assert await Stage(project).output("caller") == [True, True, "from the callee", 1, 2]


HOLDS = """
    const told = (work: Promise<any>) => work.then((v) => v?.value ?? v, (e) => e.code);
    export async function holds() {
      return [
        await told(flo.vault.get({ scope: "profile", key: "token" })),
        await told(flo.state.get({ scope_kind: "task", key: "s.k" })),
      ];
    }
"""
DECLARED = {
    "vault": "[{key: token, scope_kinds: [profile]}]",
    "state": "[{name: s, key_prefix: s., scope_kind: task}]",
}


async def stage_with_token(project: ProjectFolder, *acts: Act) -> Stage:
    stage = Stage(project, *acts)
    await stage.place.vault.set(Scope(ScopeKind.PROFILE, "local"), "token", "s3cr3t-value")
    return stage


async def test_n37_n38_n39_a_tool_has_its_own_declarations(project: ProjectFolder) -> None:
    """Of the seed: "its own manifest-declared vault and state bindings" and other sentences.

    N38: "a plain TypeScript import does not create a new tool boundary"; N39: "the current tool
    manifest must declare any … access used by that code".
    """
    project.write("tools/holds.mts", HOLDS)
    script = """
        import { holds } from "./holds.mts";
        export async function run({ through }: any) {
          const other = through ? await flo.callTool({ tool_id: "declares", input: {} }) : null;
          return [await holds(), other?.output];
        }
    """
    project.tool("declares", script, **DECLARED)
    project.tool("lacks", script)
    found = await (await stage_with_token(project)).output("lacks", {"through": True})
    denied, held = ["VAULT_DENIED", "STATE_DENIED"], ["[secret:token]", None]
    assert found == [denied, [held, None]]


async def test_n41_three_tools_deep(project: ProjectFolder) -> None:
    """Seed N41: "composing smaller tools into a larger workflow"."""
    for name, other in (("one", "two"), ("two", "three")):
        script = f"""
            export const run = async ({{ n }}: any) =>
              flo.callTool({{ tool_id: "{other}", input: {{ n: n + 1 }} }});
        """
        project.tool(name, script)
    project.tool("three", "export const run = ({ n }: any) => n;")
    stage = Stage(project)
    found = await stage.output("one", {"n": 1})
    inner = {"status": "success", "output": 3}
    assert found == {"status": "success", "output": inner}
    records = await stage.place.log.read(LogId(stage.task_id))
    paths = [r.path for r in records if isinstance(r.event, CallSettled) and r.event.ran]
    names = [[each.partition("#")[0] for each in (path or "").split("/")[2:]] for path in paths]
    assert names == [["one", "two", "three"], ["one", "two"], ["one"]]
