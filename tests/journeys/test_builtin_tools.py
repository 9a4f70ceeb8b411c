"""Built-in tools called by scripts, in a project on disk."""

from tests.kit.project import ProjectFolder

FILES = """
    export async function run() {
      const call = async (tool_id: string, input: object) => {
        const envelope = await flo.callTool({ tool_id, input });
        return envelope.output ?? envelope.error?.details?.reason;
      };
      const path = "session://notes/a.txt";
      await call("write_text_file", { path, content: "first" });
      await Promise.all([1, 2, 3].map((n) => call("write_text_file",
        { path: `session://notes/${n}.txt`, content: "x".repeat(n) })));
      return [
        await call("read_text_file", { path }),
        (await call("read_dir", { path: "session://notes" })).entry_count,
        await call("read_text_file", { path: "session://none" }),
      ];
    }
"""
TABLE = """
    export async function run() {
      const path = "task://report.csv";
      const values = [["name", "sum"], ["Ann", 1.5]];
      await flo.callTool({ tool_id: "csv_create", input: { path, values } });
      const found = await flo.callTool({
        tool_id: "csv_read", input: { path, range: "A1:B2" } });
      return found.output.values;
    }
"""


async def test_a_script_reads_and_writes_files_through_tools(project: ProjectFolder) -> None:
    """N40: "reading or writing VFS files through built-in tools"."""
    project.tool("notes", FILES, script_tools="[write_text_file, read_text_file, read_dir]")
    async with project.opened() as runtime:
        envelope = await runtime.call("notes", {})
    assert envelope.error is None
    result, count, reason = envelope.output
    assert (result["content"], count, reason) == ("first", 4, "not_found")


async def test_a_script_converts_a_format_through_a_tool(project: ProjectFolder) -> None:
    """N43: "delegating format-specific work to a built-in tool"."""
    project.tool("table", TABLE, script_tools="[csv_create, csv_read]")
    async with project.opened() as runtime:
        envelope = await runtime.call("table", {})
    assert envelope.output == [["name", "sum"], ["Ann", "1.5"]]
