"""The promises of *Manifest Basics* about scripts: each sentence, on tools that run."""

import pytest

from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.core.scopes import Scope, ScopeKind
from tests.kit.manifests import CAPTURE
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage


def found_in(project: ProjectFolder) -> list[str]:
    """Return the codes of the findings in a project."""
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


async def test_b18_b19_a_secret_is_received_only_on_request(project: ProjectFolder) -> None:
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
