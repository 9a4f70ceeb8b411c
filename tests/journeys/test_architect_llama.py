"""The architect on a real model server: its calls follow a grammar, its words are noise."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.app.flows import check_flows
from penstock.app.project import check_project
from penstock.app.settings import load
from penstock.chat.requests import NewRun
from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage
from penstock.models.model import ModelRequest, ToolDefinition
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel
from tests.kit.architect_files import AGENT, FLOW
from tests.kit.flows import task_of
from tests.kit.llama import Constrained, llama_server
from tests.kit.project import ProjectFolder

pytestmark = [
    pytest.mark.programs,
    pytest.mark.slow("another process writes every call, a character at a time"),
]
CONTEXT = 16_384
TASK = "A tour of Lisbon"
AGENTS = [AGENT, AGENT.replace("worth seeing", "worth a visit")]
FLOWS = [FLOW, FLOW.replace("max_iterations: 3", "max_iterations: 2")]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("agent_catalog", {}),
    ("agent_write", {"path": {"const": "guide"}, "content": {"enum": AGENTS}}),
    ("flow_write", {"path": {"const": "tour"}, "content": {"enum": FLOWS}}),
]
FINISH: dict[str, Any] = {
    "status": {"const": "complete"},
    "summary": {"enum": ["done", "well done"]},
    "files": {"type": "array", "maxItems": 0},
    "flow_path": {"const": "flows/tour.yaml"},
    "command": {"const": "tour"},
    "sights": {"type": "array", "items": {"enum": ["tower", "tram"]}, "minItems": 1, "maxItems": 2},
}
"""What `finish` may be given, as far as the step promises it."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with llama_server(CONTEXT) as url:
        yield url


def _narrow(request: ModelRequest) -> ToolDefinition:
    """Leave the server one call, in which it chooses among texts that make sense."""
    done = sum(isinstance(each, AssistantMessage) for each in request.messages)
    if task_of(request) == TASK and done < len(CALLS):
        name, properties = CALLS[done]
    else:
        name = "finish"
        offered = next(each for each in request.tools if each.name == name).parameters["properties"]
        known = {**FINISH, **({"branch": offered["branch"]} if "branch" in offered else {})}
        properties = {key: known[key] for key in known if key in offered}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    narrowed = {**parameters, "additionalProperties": False}
    return ToolDefinition(name=name, description="Do it.", parameters=narrowed)


async def test_a_flow_of_the_architect_has_no_errors_and_runs(
    project: ProjectFolder, server: str
) -> None:
    """The architect, on the llama.cpp peer's constrained tool calls, writes an agent and a flow."""
    config = ModelConfig(
        name="peer",
        provider="llama.cpp",
        model="tiny",
        base_url=f"{server}/v1",
        extra={"tool_choice": "required"},
    )
    model = Constrained(OpenAIModel(config, Limits()), _narrow)
    settings = {"models": {"default": "peer"}, "flows": {"autonomous": True}}
    project.write(
        "flows/design.yaml",
        f"""\
        name: design
        description: Designs a tour
        steps: [{{id: design, agent: flow-architect, task: "{TASK}"}}]
    """,
    )
    async with project.opened(models=[model], settings=settings) as runtime:
        designed = await runtime.run_flow(NewRun(command="design", task="t"))
        assert designed.ok, designed
        ran = await runtime.run_flow(NewRun(command="tour", task="Lisbon"))
    assert ran.ok, ran
    assert (project.root / "agents/guide.md").read_text() in AGENTS
    assert (project.root / "flows/tour.yaml").read_text() in FLOWS
    results = ran.output["results"]
    assert set(results["look"]["sights"]) <= {"tower", "tram"}
    assert results["page"]["status"] == "complete"
    read = load(project.root)
    result = check_project(read, lambda each: check_flows(read, each))
    assert [str(each) for each in result.diagnostics] == []
