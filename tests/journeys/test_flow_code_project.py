"""Code steps of a project on disk: found, checked, stored with their runs."""

from penstock.chat.requests import NewRun
from penstock.core.events.flow_events import Output
from penstock.flows.checks.context import CheckContext
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.modules import ModuleLoader
from penstock.flows.steps.code import Code
from tests.kit.project import ProjectFolder

FLOW = """
name: demo
description: d
steps:
  - {id: count, type: code, inputs: {text: "${{task}}"}, outputs: [words]}
"""
COUNT = """
import { words } from "./lib/words.ts";
import type { Flow } from "@any/pi-flows";

interface Input { text: string }

export default ({ text }: Input, ctx: Flow) => ({ words: `${ctx.flowName} ${words(text)}` });
"""
WORDS = "export const words = (text: string): number => text.split(' ').length;\n"


def write(project: ProjectFolder, beside: str, flow: str) -> None:
    project.write(flow, FLOW)
    project.write(f"{beside}/count.ts", COUNT)
    project.write(f"{beside}/lib/words.ts", WORDS)


async def test_a_flow_of_a_project_runs_its_modules(project: ProjectFolder) -> None:
    write(project, "flows/dom/handlers/demo", "flows/dom/demo.yaml")
    write(project, ".pi/flows/flows/whole", ".pi/flows/flows/whole/flow.yaml")
    async with project.opened() as runtime:
        for command in ("dom:demo", "whole"):
            envelope = await runtime.run_flow(NewRun(command=command, task="one two three"))
            assert envelope.ok, envelope
            assert envelope.output["results"]["count"]["words"] == f"{command} 3"


def test_a_flow_includes_the_texts_of_its_modules(
    project: ProjectFolder, modules: ModuleLoader
) -> None:
    write(project, "flows/handlers/demo", "flows/demo.yaml")
    library = ProjectFlows(project.root, CheckContext, modules=modules)
    source = library.find("demo")
    names = ["flows/demo.yaml", "flows/handlers/demo/count.ts", "flows/handlers/demo/lib/words.ts"]
    assert list(source.texts) == names
    assert source.errors == []


def test_a_broken_module_prevents_its_flow_from_running(
    project: ProjectFolder, modules: ModuleLoader
) -> None:
    """`handler-broken`: `{path}:{line}:{col}: {problem}`, error."""
    write(project, "flows/handlers/demo", "flows/demo.yaml")
    project.write("flows/handlers/demo/count.ts", "import fs from 'node:fs';\nexport default 1;")
    (error,) = ProjectFlows(project.root, CheckContext, modules=modules).find("demo").errors
    assert error.code == "handler-broken"
    text = 'flows/handlers/demo/count.ts:1:16: package import "node:fs" is not allowed'
    assert error.message == text


def test_a_flow_of_code_steps_only_has_no_findings(
    project: ProjectFolder, modules: ModuleLoader
) -> None:
    write(project, "flows/handlers/demo", "flows/demo.yaml")
    library = ProjectFlows(project.root, CheckContext, modules=modules)
    read, result = library.check(library.files().files["demo"])
    assert list(result) == []
    assert read.flow is not None
    (step,) = read.flow.steps
    assert isinstance(step, Code)
    assert step.outputs == (Output(name="words"),)
