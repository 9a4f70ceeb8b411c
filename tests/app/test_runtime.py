"""The runtime of an embedding program: chat, call, answer, cancel, follow."""

import pytest

from penstock.core.call import Effect
from penstock.core.envelope import SUSPENDED, Status
from penstock.core.ids import QuestionId
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.function import tool
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act, echo


async def test_a_direct_call_returns_the_envelope_of_its_tool() -> None:
    tool = Act("echo", echo, direct_call=True)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("echo", {"a": 1})
    assert (envelope.status, envelope.output) == (Status.SUCCESS, {"a": 1})


@pytest.mark.parametrize(
    ("tool_id", "code"), [("ecko", "TOOL_NOT_FOUND"), ("hidden", "TOOL_NOT_FOUND")]
)
async def test_a_direct_call_of_an_invisible_tool_fails(tool_id: str, code: str) -> None:
    tools = [Act("echo", echo, direct_call=True), Act("hidden", echo)]
    async with memory_runtime(tools=tools) as runtime:
        error = (await runtime.call(tool_id, {})).error
    assert error
    assert error.code == code


async def test_a_suspended_direct_call_names_its_open_question() -> None:
    tool = Act("send", echo, direct_call=True, requires_approval=True, effect=Effect.WRITE)
    async with memory_runtime(tools=[tool]) as runtime:
        envelope = await runtime.call("send", {"to": "ann"})
        assert envelope.error
        assert (envelope.status, envelope.error.code) == (Status.SUSPENDED, SUSPENDED)
        details = envelope.error.details or {}
        assert details.keys() == {"question_ids", "task_id"}
        (question_id,) = details["question_ids"]
        await runtime.requests.answer(QuestionId(question_id), {"decision": "approve"})
        reply = await runtime.requests.wait(details["task_id"])
    assert reply
    assert reply.envelope
    assert reply.envelope.output == {"to": "ann"}


@tool
def private(n: int) -> int:
    """Return a number."""
    return n


@pytest.mark.parametrize(
    ("tool_id", "expected"),
    [
        ("private", "give it @tool(direct_call=True)"),
        (
            "act",
            "it is built in; `penstock tools grants act` shows who may call it",
        ),
    ],
)
async def test_a_refused_direct_call_explains_how_to_allow_it(tool_id: str, expected: str) -> None:
    async with memory_runtime(tools=[private, Act("act", echo)]) as runtime:
        error = (await runtime.call(tool_id, {})).error
    assert error
    assert (error.code, error.message) == (
        "TOOL_NOT_FOUND",
        f"the tool {tool_id!r} does not allow direct calls: {expected}",
    )


BROKEN = "from penstock import tool\n\n@tool(direct_call=True)\ndef price(x): return x\n"


async def test_a_direct_call_of_a_broken_tool_names_its_error(project: ProjectFolder) -> None:
    project.write("tools/shop.py", BROKEN)
    project.tool("script", "export const run = () => 5;", direct_call="false")
    async with project.opened() as runtime:
        broken = (await runtime.call("price", {})).error
        script = (await runtime.call("script", {})).error
    assert broken
    assert broken.message.startswith("The tool 'price' could not be loaded: tools/shop.py:4: ")
    assert script
    assert "add `direct_call: true` to its manifest" in script.message
