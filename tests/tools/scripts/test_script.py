"""A tool that is a script: what it hands to the sandbox, and what it says when it is broken."""

from collections.abc import Awaitable
from typing import Any

import pytest

from penstock.core.call_errors import ScriptError, ScriptLoadError
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.envelope import Json
from penstock.core.signals import Suspend
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.script import Bounds, Script
from penstock.testing.invocation import invocation_for, open_workbench
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec
from tests.kit.scripts import script_of

SPEC = ToolSpec(tool_id="ask", description="Ask.", input_schema=ANY_INPUT, is_frame=True)
WAIT = {"user_message": "Yes?"}


class Playing:
    """A sandbox in which the test is the script."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error
        self.bounds: Bounds | None = None

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        self.bounds = bounds
        waiting = bridge.ask("task.waitForUserMessage", WAIT)
        assert isinstance(waiting, Awaitable)
        with pytest.raises(Suspend):
            await waiting
        if self._error is not None:
            raise self._error
        return dict(input)

    async def close(self) -> None:
        """End nothing."""


def tool_in(sandbox: Playing, bindings: Bindings | None = None) -> ScriptTool:
    script = script_of("export const run = () => 1;")
    return ScriptTool(SPEC, script, bindings=bindings or Bindings(), sandbox=sandbox)


async def test_the_bounds_are_those_of_the_manifest_and_the_rest_of_the_time() -> None:
    sandbox = Playing()
    tool = tool_in(sandbox, Bindings(memory_mb=128, log_bytes=7))
    invocation = await invocation_for(tool)
    assert await tool.run({"n": 1}, invocation) == {"n": 1}
    assert sandbox.bounds
    assert (sandbox.bounds.memory_mb, sandbox.bounds.log_bytes) == (128, 7)
    assert sandbox.bounds.seconds == 3600
    assert tool.preview({"n": 1}) is None


@pytest.mark.parametrize("error", [None, ScriptError("no")])
async def test_a_script_that_is_over_leaves_no_question(error: BaseException | None) -> None:
    bench = await open_workbench(tool := tool_in(Playing(error)))
    envelope = await bench.call("ask")
    assert envelope.ok == (error is None)
    assert bench.questions == []
    assert tool.spec.tool_id == "ask"


async def test_a_script_that_waits_keeps_its_question() -> None:
    bench = await open_workbench(tool_in(Playing(Suspend("q"))))
    with pytest.raises(Suspend):
        await bench.call("ask")
    assert len(bench.questions) == 1


async def test_a_broken_tool_says_what_is_wrong() -> None:
    found = Diagnostic(
        file="a.mts", line=1, column=8, severity=Severity.ERROR, code="import-bare", message="no"
    )
    tool = ScriptTool(SPEC, [found], bindings=Bindings(), sandbox=Playing())
    with pytest.raises(ScriptLoadError, match=r'"ask" is broken: a\.mts:1:8') as broken:
        await tool.run({}, await invocation_for(tool))
    assert broken.value.details == {"diagnostics": [found.to_wire()]}
