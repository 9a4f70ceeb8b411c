"""What *Nested Tool Calls* and *Manifest Basics* promise of scripts that run: each sentence."""


import pytest

from penstock.agents.agent import Agent
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.message import NewMessage
from penstock.core.events import CallSettled
from penstock.core.scope import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder
from tests.kit.stage import Stage
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
    async with project.opened(agents=[Agent(model=model)]) as runtime:
        sent = await runtime.send(NewMessage(content="Go", selected_skills=("a",)))
        reply = await runtime.wait(sent.task_id)
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
    manifest must declare any vault, state, or other access used by that code".
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
    records = await stage.place.log.read(stage.task_id)
    paths = [r.path for r in records if isinstance(r.event, CallSettled) and r.event.ran]
    names = [[each.partition("#")[0] for each in (path or "").split("/")[2:]] for path in paths]
    assert names == [["one", "two", "three"], ["one", "two"], ["one"]]


CAPTURE = """
    name: capture_example
    description: Open a page and return the current URL.
    input_schema:
      type: object
      properties:
        url:
          type: string
      required: [url]
      additionalProperties: false
    execution:
      type: script
      script_file: scripts/capture_example.mts
      entrypoint: run
    timeout_ms: 30000
"""


def found_in(project: ProjectFolder) -> list[str]:
    """Return the codes of what is wrong with a project."""
    return [each.code for each in load_project(load(project.root)).diagnostics]


async def test_b05_b06_the_capture_example(project: ProjectFolder) -> None:
    """Seed B06: the `capture_example` tool; B05: optional `timeout_ms` and the rest."""
    project.write("capture_example.tool.yaml", CAPTURE)
    project.write(
        "scripts/capture_example.mts",
        "export const run = ({ url }: { url: string }): string => new URL(url).href;",
    )
    project.tool(
        "use",
        """
        export const run = (input: any) => flo.callTool({ tool_id: "capture_example", input });
    """,
        script_tools="[capture_example]",
    )
    stage = Stage(project)
    found = await stage.output("use", {"url": "https://example.com"})
    assert found == {"status": "success", "output": "https://example.com/"}
    tools = {each.spec.tool_id: each.spec for each in load_project(load(project.root)).tools}
    assert tools["capture_example"].timeout_ms == 30_000
    assert tools["use"].timeout_ms == 60_000


INLINE = """
    name: {name}
    description: Inline.
    input_schema: {{type: object}}
    direct_call: true
    execution: {execution}
"""


@pytest.mark.parametrize(
    ("execution", "code"),
    [
        ("{type: script, script: 'export const run = () => 1', script_file: a.mts}", "exactly-one"),
        ("{type: script}", "exactly-one"),
        ("{type: script, script_file: /etc/passwd.mts}", "path-traversal"),
        ("{type: script, script_file: ../a.mts}", "path-traversal"),
        ("{type: script, script_file: scripts/out.mts}", "path-escape"),
        ("{type: script, script: 'export const go = () => 1'}", "entrypoint-missing"),
        (
            "{type: script, script: 'export const run = () => 1', entrypoint: go}",
            "entrypoint-missing",
        ),
    ],
)
def test_b07_b09_b10_a_script_has_one_source_in_its_folder(
    project: ProjectFolder, execution: str, code: str
) -> None:
    """Seed B07: "define exactly one of"; B09: "under the manifest directory"; B10: "entrypoint"."""
    project.write("tools/a.tool.yaml", INLINE.format(name="a", execution=execution))
    project.write("a.mts", "export const run = () => 1;")
    (project.root / "tools" / "scripts").mkdir(parents=True)
    (project.root / "tools" / "scripts" / "out.mts").symlink_to(project.root / "a.mts")
    assert code in found_in(project)


@pytest.mark.parametrize(
    ("source", "entrypoint"),
    [
        ("export function run(input) { return 1; }", ""),
        ("export const run = (input: any): number => 1 as number;", ""),
        ("export const run = () => 2; export const go = () => 1;", ", entrypoint: go"),
        ("export default () => 1;", ", entrypoint: default"),
    ],
)
async def test_b08_b10_inline_source_and_the_function_that_is_called(
    project: ProjectFolder, source: str, entrypoint: str
) -> None:
    """Seed B08: "inline JavaScript or TypeScript"; B10: "select the exported function"."""
    execution = f"{{type: script, script: '{source}'{entrypoint}}}"
    project.write("a.tool.yaml", INLINE.format(name="a", execution=execution))
    assert await Stage(project).output("a") == 1


COUNTER = """
    [{name: session_counter, key_prefix: counter.session., scope_kind: session},
     {name: shared_counter, key_prefix: counter.shared., scope_kind: shared, scope_id: service}]
""".strip().replace("\n", " ")
COUNTS = """
    const told = (work: Promise<any>) => work.then((r) => r?.value ?? r?.ok ?? null, (e) => e.code);
    export const run = async ({ put, kind, key }: any) => put === undefined
      ? told(flo.state.get({ scope_kind: kind, key }))
      : told(flo.state.put({ scope_kind: kind, key, value: put }));
"""


async def test_b15_b16_b17_the_state_example(project: ProjectFolder) -> None:
    """Seed B15: "durable non-secret data"; B16: the `state` example; B17: session and shared."""
    project.tool("counts", COUNTS, state=COUNTER)
    stage = Stage(project)
    session = {"kind": "session", "key": "counter.session.x"}
    shared = {"kind": "shared", "key": "counter.shared.x"}
    crossed = [session | {"kind": "shared"}, shared | {"kind": "session"}]
    assert [await stage.output("counts", each) for each in crossed] == ["STATE_DENIED"] * 2
    assert await stage.output("counts", session | {"put": 1})
    assert await stage.output("counts", shared | {"put": 2})
    assert await stage.output("counts", shared) == 2
    assert await stage.output("counts", session) is None


async def test_b18_b19_a_secret_is_had_by_asking_alone(project: ProjectFolder) -> None:
    """Seed B18: the `vault` example; B19: "requires the script to fetch secrets explicitly"."""
    looks = """
        export async function run(input: any) {
          const context = await flo.task.getContext();
          const seen = JSON.stringify([input, Object.keys(globalThis), context]);
          const told = (w: Promise<any>) => w.then((v) => v.length, (e) => e.code);
          return [seen.includes("s3cr3t"),
            await told(flo.vault.get({ scope: "profile", key: "api_token" })),
            await told(flo.vault.get({ scope: "shared", scope_id: "team", key: "api_token" }))];
        }
    """
    project.tool("both", looks, vault="[{key: api_token, scope_kinds: [profile, shared]}]")
    project.tool("own", looks, vault="[{key: api_token, scope_kinds: [profile]}]")
    stage = Stage(project)
    for scope in (Scope(ScopeKind.PROFILE, "local"), Scope(ScopeKind.SHARED, "team")):
        await stage.place.vault.set(scope, "api_token", "s3cr3t-value")
    assert await stage.output("both") == [False, 12, 12]
    assert "s3cr3t" not in repr(await stage.events())
    assert await stage.output("own") == [False, 12, "VAULT_DENIED"]


async def test_b20_b21_local_modules_of_every_kind(project: ProjectFolder) -> None:
    """Seed B20: "local static ESM imports"; B21: "relative .mjs, .mts, and related"."""
    for ending in ("mjs", "mts", "js", "ts"):
        typed = ": number" if ending.endswith("ts") else ""
        project.write(f"tools/lib/{ending}.{ending}", f"export const n{typed} = 1;")
    project.write("tools/lib/data.json", '{"n": 1}')
    project.write(
        "tools/lib/a.mts",
        """
        import { b } from "./b.mts";
        export const a = (n: number): number => (n > 2 ? n : b(n + 1));
    """,
    )
    project.write(
        "tools/lib/b.mts",
        """
        import { a } from "./a.mts";
        export const b = (n: number): number => a(n + 1);
    """,
    )
    script = """
        import { n as mjs } from "./lib/mjs.mjs";
        import { n as mts } from "./lib/mts.mts";
        import { n as js } from "./lib/js.js";
        import { n as ts } from "./lib/ts.ts";
        import data from "./lib/data.json" with { type: "json" };
        import { a } from "./lib/a.mts";
        export const run = () => [mjs + mts + js + ts + data.n, a(0)];
    """
    project.tool("modules", script)
    assert await Stage(project).output("modules") == [5, 4]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('import x from "lodash";', "import-bare"),
        ('import x from "@scope/x";', "import-bare"),
        ('import x from "node:fs";', "import-bare"),
        ('import x from "npm:x";', "import-bare"),
        ('const x = import("./a.mts");', "import-dynamic"),
        ("const x = import(String(1));", "import-dynamic"),
    ],
)
@pytest.mark.parametrize("is_inner", [False, True])
def test_b22_b23_b24_other_imports_are_refused(
    project: ProjectFolder, text: str, code: str, *, is_inner: bool
) -> None:
    """Seed B22: "bare specifiers"; B23: "package-style imports"; B24: "dynamic import()"."""
    project.write("tools/lib/inner.mts", f"export const one = 1;\n{text if is_inner else ''}\n")
    outer = "" if is_inner else text
    project.tool("a", f'import "./lib/inner.mts";\n{outer}\nexport const run = () => 1;')
    (found,) = load_project(load(project.root)).diagnostics
    assert (found.code, found.line) == (code, 2)
    assert found.file.endswith("inner.mts" if is_inner else "a.mts")
    assert found.column >= 1
