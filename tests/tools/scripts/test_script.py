"""A script tool runs in its sandbox, and reaches the host calls that are set up."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call_errors import ScriptError, ScriptLoadError
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.envelope import Json
from penstock.core.errors import Suspend
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.script import Bounds, Script
from penstock.testing.invocation import invocation_for, open_workbench
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.script import ScriptTool, bridge_of
from penstock.tools.spec import ANY_INPUT, ToolSpec
from tests.kit.hosts import BINDINGS, asking
from tests.kit.local_egress import way
from tests.kit.scripts import script_of

SPEC = ToolSpec(tool_id="ask", description="Ask.", input_schema=ANY_INPUT, is_frame=True)
WAIT = {"user_message": "Yes?"}


class Playing:
    """A sandbox in which the test is the script."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error
        self.bounds: Bounds | None = None
        self.engine = "wasm"

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        self.bounds = bounds
        waiting = bridge.ask("task.waitForUserMessage", WAIT)
        assert isinstance(waiting, Awaitable)
        with pytest.raises(Suspend):
            await waiting
        bridge.computed(700)
        if self._error is not None:
            raise self._error
        return dict(input)

    def engine_for(self, requested: str | None) -> str:
        return requested or self.engine

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


async def test_without_limits_in_the_manifest_those_of_the_project_hold() -> None:
    """§5: `limits.*`: the limits of §10 that size memory, time and output."""
    limits = Limits(script_memory_mb=20, script_cpu_ms=6, script_output_bytes=7, log_bytes=5)
    bench = await open_workbench(tool := tool_in(sandbox := Playing()), limits=limits)
    await tool.run({}, bench.invocation(tool))
    assert (bounds := sandbox.bounds)
    assert (bounds.memory_mb, bounds.cpu_ms, bounds.output_bytes) == (20, 6, 7)
    assert bounds.log_bytes == 5


async def test_an_entry_gets_the_remaining_computing_time() -> None:
    """`script_cpu_ms`: computing time of one attempt, of all its entries."""
    bench = await open_workbench(tool_in(sandbox := Playing(Suspend("q"))))
    for _ in range(3):
        with pytest.raises(Suspend):
            await bench.call("ask")
        bench.enter()
    assert sandbox.bounds
    assert (sandbox.bounds.cpu_ms, sandbox.bounds.spent_ms) == (30_000, 2 * 700)


@pytest.mark.parametrize("error", [None, ScriptError("no")])
async def test_an_ended_script_leaves_no_question(error: BaseException | None) -> None:
    bench = await open_workbench(tool := tool_in(Playing(error)))
    envelope = await bench.call("ask")
    assert envelope.ok == (error is None)
    assert bench.questions == []
    assert tool.spec.tool_id == "ask"


async def test_a_suspended_script_keeps_its_question() -> None:
    bench = await open_workbench(tool_in(Playing(Suspend("q"))))
    with pytest.raises(Suspend):
        await bench.call("ask")
    assert len(bench.questions) == 1


async def test_a_broken_tool_fails_with_its_diagnostics() -> None:
    result = Diagnostic(
        file="a.mts", line=1, column=8, severity=Severity.ERROR, code="import-bare", message="no"
    )
    tool = ScriptTool(SPEC, [result], bindings=Bindings(), sandbox=Playing())
    with pytest.raises(ScriptLoadError, match=r'"ask" is broken: a\.mts:1:8') as broken:
        await tool.run({}, await invocation_for(tool))
    assert broken.value.details == {"diagnostics": [result.to_wire()]}


async def test_a_change_of_engine_is_a_changed_script() -> None:
    """Wider §15: "the script is entered again there (`script.changed`)"."""
    bench = await open_workbench(tool_in(sandbox := Playing(Suspend("q"))))
    for engine, reported in (("wasm", 0), ("wasm", 0), ("deno", 1), ("deno", 1), ("wasm", 2)):
        sandbox.engine = engine
        with pytest.raises(Suspend):
            await bench.call("ask")
        bench.enter()
        events = [each for each in await bench.events() if isinstance(each, NoteEmitted)]
        assert [each.event_type for each in events] == ["script.changed"] * reported


class Starting(Playing):
    """A script that leaves a step open, and asks for less in each entry."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(error)
        self.sleeps = 2

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        for _ in range(self.sleeps):
            slept = bridge.ask("sleep", {"ms": 0})
            if isinstance(slept, Awaitable):
                await slept
        self.sleeps -= 1
        bridge.ask("task.step.start", {"key": "k", "version": 1})
        if self.sleeps:
            raise Suspend("q")
        if self._error is not None:
            raise self._error
        return 1


async def test_an_ended_script_closes_its_step_and_reports_divergence() -> None:
    bench = await open_workbench(tool_in(Starting()))
    with pytest.raises(Suspend):
        await bench.call("ask")
    assert not bench.ledger.open_step
    bench.enter()
    assert (await bench.call("ask")).ok
    assert not bench.ledger.open_step
    notes = [each for each in await bench.events() if isinstance(each, NoteEmitted)]
    assert [each.event_type for each in notes] == ["script.diverged"]


async def test_a_failed_script_is_not_reported_as_diverged() -> None:
    bench = await open_workbench(tool_in(Starting(ScriptError("no"))))
    with pytest.raises(Suspend):
        await bench.call("ask")
    bench.enter()
    assert not (await bench.call("ask")).ok
    assert not [each for each in await bench.events() if isinstance(each, NoteEmitted)]


PAGE = Path(__file__).parents[3] / "docs" / "scripts" / "bridge.md"


def on_the_page() -> set[str]:
    """Return the names in the table of what is asked."""
    table = PAGE.read_text().partition("## `ask`")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {row.split("`")[1] for row in rows}


async def test_every_documented_host_call_exists() -> None:
    host = await asking(egress=way(1).egress)
    assert len(on_the_page()) > 20
    for name in on_the_page():
        settled = await host.ask(name, {"nothing": 1})
        is_missing = settled.refusal and settled.refusal.detail.code == "NOT_AVAILABLE"
        assert not is_missing, name


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("vault", "vault.get"),
        ("state", "state.get"),
        ("files", "fs.readBytes"),
        ("egress", "fetch"),
    ],
)
async def test_calls_without_their_resource_are_not_available(part: str, name: str) -> None:
    host = await asking(egress=way(1).egress)
    without: dict[str, Any] = {part: None}
    host.bench.resources = replace(host.bench.resources, **without)
    host.begin()
    assert await host.refusal(name, {}) == "NOT_AVAILABLE"


async def test_the_seed_and_the_clock_are_those_of_the_call() -> None:
    host = await asking()
    first = (host.host.seed, host.host.begins_ms)
    await host.value("sleep", ms=0)
    host.begin()
    assert (host.host.seed, host.host.begins_ms) == first
    assert len(host.host.seed) == 32
    other = bridge_of(host.bench.invocation(host.tool, {"n": 2}), BINDINGS)
    assert other.seed != host.host.seed
