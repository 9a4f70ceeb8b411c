"""The types of a project's scripts, checked by deno."""

import os

import pytest

from penstock.app.project import load_project
from penstock.app.script_types.type_check import check_types
from penstock.app.settings import load
from tests.kit.project import ProjectFolder

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow("starts deno, which reads the declarations of its language first"),
]

SEED = """
export async function run() {
  const file = await flo.callTool({
    tool_id: "read_text_file",
    input: {
      path: PATH,
      max_bytes: 4096,
    },
  });
  const result = file;
  if (result.status !== "success") {
    return {
      ok: false,
      status: result.status,
      error: result.error,
    };
  }
  const content: string = result.output.content;
  return {
    ok: true,
    content: result.output?.content,
  };
}
"""
SUMMARY = '"task://notes/summary.txt"'


def type_errors(project: ProjectFolder) -> list[str]:
    """Return the type errors, one line each."""
    return [str(each) for each in check_types(load_project(load(project.root)))]


def test_the_input_and_output_of_a_tool_are_inferred(project: ProjectFolder) -> None:
    """Seed N20: "TypeScript can infer the input and output shape"; `path: 5` fails."""
    project.tool("good", SEED.replace("PATH", SUMMARY))
    project.tool("bad", SEED.replace("PATH", "5"))
    (line,) = type_errors(project)
    assert line.startswith(
        "tools/bad.mts:5:7: error type-error: Type 'number' is not assignable to type 'string'."
    )
    assert line.endswith("(TS2322)")


def test_scripts_in_manifests_and_imported_files_are_checked(project: ProjectFolder) -> None:
    project.write(
        "b/inline.tool.yaml",
        """
        name: inline
        description: Does it.
        input_schema: {type: object}
        execution:
          type: script
          script: |
            import { half } from "./lib/half.mts";
            export const run = (): string => half(4);
        """,
    )
    project.write("b/lib/half.mts", "export const half = (n: number): number => m / 2;\n")
    os.mkfifo(project.root / "b" / "lib" / "pipe.mts")
    assert [line.partition(": error")[0] for line in type_errors(project)] == [
        "b/inline.tool.yaml:8:38",
        "b/lib/half.mts:1:44",
    ]


def test_the_prompt_script_is_checked(project: ProjectFolder) -> None:
    """`--types`: also the type checker, of each script that a manifest names."""
    project.write(
        "own/p.prompts.yaml",
        """
        execution: {preamble: Be kind.}
        system_prompt_resolver: {script_file: lib/ask.mts, entrypoint: ask, timeout_ms: 100}
        """,
    )
    project.write("own/lib/ask.mts", "export const ask = (): string => 5;\n")
    (line,) = type_errors(project)
    assert line.startswith("own/lib/ask.mts:1:34: error type-error: Type 'number' is not")


def test_findings_have_paths_of_the_project(project: ProjectFolder) -> None:
    """The type checker looks for a module first that is imported only for its types."""
    project.tool(
        "lost", 'import type { T } from "./a b/gone.mts";\nexport const run = (x: T) => x;'
    )
    project.tool("lone", 'import { n } from "./a b/n.mts";\nexport const run = () => n;')
    project.write("tools/a b/n.mts", "export const n: string = 1;\n")
    lines = type_errors(project)
    assert sorted(lines) == [
        (
            "tools/a b/n.mts:1:14: error type-error: "
            "Type 'number' is not assignable to type 'string'. (TS2322)"
        ),
        "tools/lost.mts:1:24: error type-error: Cannot find module 'tools/a b/gone.mts'. (TS2307)",
    ]
    assert type_errors(project) == lines


def test_cells_of_a_csv_file_are_texts_or_null(project: ProjectFolder) -> None:
    """`csv_read`: texts as stored, `null` outside the data (§17)."""
    script = """
        export async function run() {
          const input = { path: "task://a.csv", range: "A1" };
          const read = await flo.callTool({ tool_id: "csv_read", input });
          return read.status === "success" ? read.output.values[0]?.[0]?.trim() : null;
        }
    """
    project.tool("texts", script)
    assert type_errors(project) == []


def test_a_script_sees_only_its_globals(project: ProjectFolder) -> None:
    """`lib: ["esnext"]` makes `process`, `Deno` errors."""
    world = """
        import * as other from "flo:runtime";
        import { ToolError } from "flo:runtime";
        import table from "./table.json" with { type: "json" };
        export async function run({ n }: { n: number }) {
          const { call } = await flo.task.getContext();
          const id: string = `tool_${n}`;
          const any: unknown = (await other.callTool({ tool_id: id, input: { n } })).output;
          const secret = await flo.vault.handle({ scope: "profile", key: "k" });
          const answer = await fetch(new URL("https://example.com"), {
            method: "POST", headers: { authorization: `Bearer ${secret}` }, record: false,
            body: JSON.stringify({ any, id: crypto.randomUUID(), at: table.a, entry: call.entry }),
          });
          const made = await flo.task.step({ key: "a", version: 1, input: { n } },
            async ({ input }) => input.n + 1);
          try { return { ok: answer.ok, double: made * 2 }; }
          catch (error) {
            if (error instanceof flo.FloError) console.warn(error.code, error.retryable);
            throw new ToolError({ code: "NO", message: "no" });
          }
        }
    """
    project.tool("world", world)
    project.write("tools/table.json", '{"a": 1}')
    project.tool("far", "export const run = () => [process.env, Deno, WebAssembly];")
    lines = type_errors(project)
    assert all(line.startswith("tools/far.mts:1:") for line in lines)
    assert [line.count("Cannot find name") for line in lines] == [1, 1, 1]


def test_tools_that_call_each_other_know_their_types(project: ProjectFolder) -> None:
    """For an id of the map a wrong input is a type error; `output` is typed after `success`."""
    script = """
        export async function run() {
          const sum = await flo.callTool({ tool_id: "sum", input: { a: 1 } });
          await flo.callTool({ tool_id: "sum" });
          return sum.status === "success" ? sum.output.total.length : sum.output.total;
        }
    """
    project.tool("use", script)
    project.tool(
        "sum",
        "export const run = () => ({ total: 3 });",
        input_schema="{type: object, properties: {a: {type: number}}, required: [a]}",
        output_schema="{type: object, properties: {total: {type: number}}, required: [total]}",
    )
    places = [line.partition(": error")[0] for line in type_errors(project)]
    assert places == ["tools/use.mts:3:22", "tools/use.mts:4:54", "tools/use.mts:4:63"]


def test_linked_scripts_and_linked_imports_are_checked(
    project: ProjectFolder,
) -> None:
    project.tool("linked", "")
    project.write("tools/real.mts", SEED.replace("PATH", "5"))
    project.write("tools/shared/sum.mts", "export const sum: string = 5;")
    project.tool("sums", 'import { sum } from "./lib/sum.mts";\nexport const run = () => sum;\n')
    (project.root / "tools/linked.mts").unlink()
    (project.root / "tools/linked.mts").symlink_to("real.mts")
    (project.root / "tools/lib").symlink_to("shared")
    assert {line.partition(" error ")[0] for line in type_errors(project)} == {
        "tools/linked.mts:5:7:",
        "tools/lib/sum.mts:1:14:",
    }


def test_no_file_from_outside_of_the_project_is_copied(project: ProjectFolder) -> None:
    outside = project.root.parent / "outside.mts"
    outside.write_text("export const secret: string = 5;")
    (project.root / "tools").mkdir(exist_ok=True)
    (project.root / "tools/leak.mts").symlink_to(outside)
    (project.root / "tools/round.mts").symlink_to("round.mts")
    project.tool("t", 'import { secret } from "./leak.mts";\nexport const run = () => secret;\n')
    assert not any("not assignable" in line for line in type_errors(project))


def test_types_from_elsewhere_are_not_fetched(project: ProjectFolder) -> None:
    """No network."""
    project.tool(
        "far",
        """
        import type { Far } from "https://example.com/far.ts";
        export const run = (): Far => 1;
        """,
    )
    (line,) = type_errors(project)
    assert line.startswith("tools/far.mts:1:26: error type-error: ")
