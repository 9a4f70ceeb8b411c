"""Script tools from their files to their envelope: the call, the sandbox and the bridge."""

from penstock import tool
from penstock.core.envelope import Status
from tests.kit.project import ProjectFolder


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(direct_call=True, requires_approval=True)
async def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


async def test_a_script_receives_its_input_and_returns_its_output(project: ProjectFolder) -> None:
    project.tool("hello", "export const run = ({ name }: { name: string }) => `hello ${name}`;")
    async with project.opened() as runtime:
        envelope = await runtime.call("hello", {"name": "Ann"})
    assert (envelope.status, envelope.output) == (Status.SUCCESS, "hello Ann")


async def test_a_script_calls_another_tool_and_gets_its_envelope(project: ProjectFolder) -> None:
    """Seed N01: "call another runtime tool from your script"."""
    script = """
        export async function run() {
          return await flo.callTool({ tool_id: "send", input: {} });
        }
    """
    project.tool("ask", script)
    async with project.opened(tools=[send]) as runtime:
        envelope = await runtime.call("ask", {})
    assert envelope.ok
    assert envelope.output["status"] == "validation_error"
    assert envelope.output["error"]["code"] == "INVALID_INPUT"
    assert "suggestion" not in envelope.output["error"]


async def test_a_refused_script_call_names_the_missing_grant(
    project: ProjectFolder,
) -> None:
    script = 'export const run = () => flo.callTool({ tool_id: "add", input: { a: 1, b: 2 } });'
    project.tool("sum", script)
    async with project.opened(tools=[add]) as runtime:
        envelope = await runtime.call("sum", {})
    assert envelope.output["error"]["code"] == "NOT_PERMITTED"
    assert envelope.output["error"]["message"].startswith('script of "sum" may not call "add"')


async def test_a_script_that_waited_for_an_approval_replays_its_calls(
    project: ProjectFolder,
) -> None:
    script = """
        export async function run() {
          const began = Date.now();
          const [first, sent] = await Promise.all([
            flo.callTool({ tool_id: "add", input: { a: 1, b: 2 } }),
            flo.callTool({ tool_id: "send", input: { to: "Ann" } }),
          ]);
          const { call } = await flo.task.getContext<any>();
          return { first: first.output, sent: sent.output, entry: call.entry, dice: Math.random(),
                   same: began <= Date.now() };
        }
    """
    project.tool("order", script, script_tools="[add]")
    async with project.opened(tools=[add, send]) as runtime:
        parked = await runtime.call("order", {})
        assert parked.status is Status.SUSPENDED
        assert parked.error
        assert parked.error.details
        (question,) = parked.error.details["question_ids"]
        task_id = parked.error.details["task_id"]
        await runtime.requests.answer(question, {"decision": "approve"})
        reply = await runtime.requests.wait(task_id)
    assert reply
    assert reply.envelope
    output = reply.envelope.output
    assert (output["first"], output["sent"], output["entry"]) == (3, "sent to Ann", 2)


async def test_a_broken_tool_reports_its_errors_when_called(project: ProjectFolder) -> None:
    """D10: "a call that reaches it answers `SCRIPT_LOAD_ERROR` with `details.diagnostics`"."""
    project.tool("wrong", "import x from 'lodash';\nexport const run = () => x;")
    project.tool("use", 'export const run = () => flo.callTool({ tool_id: "wrong", input: {} });')
    async with project.opened() as runtime:
        direct = await runtime.call("wrong", {})
        nested = await runtime.call("use", {})
    assert direct.error
    assert direct.error.code == nested.output["error"]["code"] == "SCRIPT_LOAD_ERROR"
    assert direct.error.details
    assert direct.error.details["diagnostics"][0]["code"] == "import-bare"


async def test_a_too_deeply_nested_input_is_refused_and_the_script_continues(
    project: ProjectFolder,
) -> None:
    script = """
        export async function run() {
          let deep: unknown = 1;
          for (let n = 0; n < 250; n++) deep = [deep];
          const called = await flo.callTool({ tool_id: "add", input: { deep } as any });
          const put = flo.task.putState({ key: "k", value: deep as any });
          return [called.status, called.error?.code, await put.catch((error) => error.name)];
        }
    """
    project.tool("ask", script, script_tools="[add]")
    async with project.opened(tools=[add]) as runtime:
        envelope = await runtime.call("ask", {})
    assert envelope.output == ["validation_error", "INVALID_INPUT", "TypeError"]
