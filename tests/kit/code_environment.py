"""Flows with code steps, in memory; their modules are texts next to the flow."""

import posixpath
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import SystemClock
from penstock.core.envelope import Envelope
from penstock.core.events.flow_events import StepSettled
from penstock.core.ids import LogId
from penstock.flows.project.module_reader import read_module
from penstock.flows.project.modules import ModuleLoader
from penstock.flows.steps.kind import CodeEnvironment
from penstock.models.scripted import ScriptedModel
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import Scanner
from penstock.sandbox.script import Sandbox
from penstock.testing.flows import MemoryFlows
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.tool import Tool
from tests.kit.flows import HEAD, RUN, WORKERS, by_task, run_in, steps

FILE = "flows/demo.yaml"
BESIDE = "flows/handlers/demo"


@pytest.fixture(scope="module")
def modules(machine_code: Path) -> Iterator[ModuleLoader]:
    """Return what reads modules."""
    clock = SystemClock()
    typescript, lexer = TypeScript(clock, machine_code), Lexer(clock, machine_code)
    reader = partial(read_module, scanner=Scanner(typescript, lexer))
    yield ModuleLoader(lambda: reader)
    typescript.close()
    lexer.close()


@pytest.fixture
def code_environment(sandbox: Sandbox, modules: ModuleLoader) -> CodeEnvironment:
    """Return what code steps run in."""
    return CodeEnvironment(sandbox=sandbox, load=modules.load)


def place_of(
    code_environment: CodeEnvironment | None, text: str, modules: Mapping[str, str], **more: Any
) -> MemoryStorage:
    """Return storage with the flow `demo`; modules without a folder are put in its own."""
    files = {
        posixpath.normpath(name if "/" in name else f"{BESIDE}/{name}"): module
        for name, module in modules.items()
    }
    flows = MemoryFlows({FILE: HEAD + steps(text), **files})
    return MemoryStorage(flows=flows, code_environment=code_environment, **more)


async def run_code(
    code_environment: CodeEnvironment | None,
    text: str,
    modules: Mapping[str, str],
    *tools: Tool,
    **more: Any,
) -> Envelope:
    """Run a flow whose code steps have these modules."""
    place = more.pop("place", None) or place_of(code_environment, text, modules)
    model = more.pop("model", None) or ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, tools=tools, place=place) as runtime:
        return await run_in(runtime, **more)


async def settled(place: MemoryStorage, step_id: str = "count") -> list[StepSettled]:
    """Return how the visits of a step ended."""
    events = [each.event for each in await place.log.read(LogId(RUN))]
    return [each for each in events if isinstance(each, StepSettled) and each.step_id == step_id]


async def visit(
    code_environment: CodeEnvironment | None,
    module: str,
    *tools: Tool,
    fields: str = "",
    **more: Any,
) -> StepSettled:
    """Return how the one step of a flow ended."""
    text = f"  - {{id: count, type: code{fields}}}"
    place = place_of(code_environment, text, {"count.ts": module}, **more)
    await run_code(code_environment, text, {}, *tools, place=place)
    (event,) = await settled(place)
    return event
