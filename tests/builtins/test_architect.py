"""The tools that the architect designs flows with, in a project on disk."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.architect import TOOLS
from penstock.core.envelope import Status
from penstock.core.events.flow_events import FlowNotified
from penstock.core.ids import ProfileId
from penstock.core.profile import Profile
from penstock.models.scripted import call
from penstock.testing.invocation import open_workbench
from penstock.tools.policy import SessionGuard
from tests.kit.architect import AtWork, at_work
from tests.kit.project import ProjectFolder

WHOLE = """
---
name: scout
description: Looks around.
tools: read, ls
inputs: [where]
outputs:
  - topics
  - {name: count, description: how many}
card: {type: research, label: Scout, metric: count}
architect: {use_when: something is to be found, produces: topics, depends_on: none, domain: web}
---
Look at ${{input.where}}.
"""
BARE = "---\nname: bare\ntools:\n---\nBe.\n"
BROKEN = "---\nname: scout\ndescription: d\ntools:\noutputs: [status]\n---\nLook.\n"
FLOW = "name: demo\ndescription: d\nsteps:\n  - {id: look, agent: writer}\n"
WRITER = "---\nname: writer\ndescription: d\ntools:\n---\nWrite.\n"


def told(found: AtWork) -> list[dict[str, Any]]:
    return [
        dict(event.body)
        for _, event in found.happened
        if isinstance(event, FlowNotified) and event.kind == "flow_rediscovered"
    ]


async def test_the_catalog_has_every_member_that_is_declared(project: ProjectFolder) -> None:
    """T30: `agent_catalog`: "JSON array of agent catalog entries"."""
    project.write("agents/scout.md", WHOLE)
    project.write("agents/bare.md", BARE)
    found = await at_work(project, call("agent_catalog"))
    bare, scout, *_ = found.outputs()[0]
    assert scout == {
        "name": "scout",
        "description": "Looks around.",
        "tools": ["read", "ls"],
        "inputs": ["where"],
        "outputs": [{"name": "topics"}, {"name": "count", "description": "how many"}],
        "card": {"type": "research", "label": "Scout", "metric": "count"},
        "source_type": "local",
        "source_path": "agents/scout.md",
        "architect": {
            "use_when": "something is to be found",
            "produces": "topics",
            "depends_on": "none",
            "domain": "web",
        },
    }
    assert bare == {
        "name": "bare",
        "description": "",
        "tools": [],
        "source_type": "local",
        "source_path": "agents/bare.md",
        "architect": {},
    }


async def test_the_catalog_lists_the_source_of_each_agent(project: ProjectFolder) -> None:
    """T31: `source_path` "only for local"; hidden and invalid agents are left out."""
    project.write("agents/flow-decision.md", BARE.replace("bare", "flow-decision"))
    project.write("agents/scout.md", BROKEN)
    found = await at_work(project, call("agent_catalog"))
    entries = found.outputs()[0]
    assert [(each["name"], each["source_type"]) for each in entries] == [
        ("flow-decision", "local"),
        ("flow-architect", "built-in"),
    ]
    assert ["source_path" in each for each in entries] == [True, False]


async def test_no_parameters_are_taken_by_the_catalog(project: ProjectFolder) -> None:
    found = await at_work(project, call("agent_catalog", x=1))
    assert [each.status for _, each in found.outcomes] == [Status.VALIDATION_ERROR]


async def test_an_agent_is_checked_then_written_and_known_at_once(project: ProjectFolder) -> None:
    """T32, T33, T35, T36: broken, nothing on disk; good, in the next catalog, and for flows."""
    found = await at_work(
        project,
        call("agent_write", path="scout", content=BROKEN),
        call("agent_write", name="writer", content=WRITER),
        call("agent_catalog"),
        call("flow_write", path="flows/dom/demo.yaml", content=FLOW),
    )
    broken, writer, catalog, flow = found.outputs()
    assert (broken["written"], broken["path"]) == (False, "agents/scout.md")
    (problem,) = broken["diagnostics"]
    assert set(problem) <= {"line", "severity", "message", "suggestion"}
    assert (problem["line"], problem["severity"]) == (5, "error")
    assert writer == {"written": True, "path": "agents/writer.md", "diagnostics": []}
    assert "writer" in [each["name"] for each in catalog]
    dry = flow.pop("dryRun")
    assert flow == {"written": True, "path": "flows/dom/demo.yaml", "diagnostics": []}
    assert (dry["reached"], dry["complete"], dry["problems"]) == (["look"], True, [])
    assert not (project.root / "agents/scout.md").exists()
    assert (project.root / "agents/writer.md").read_text() == WRITER
    assert (project.root / "flows/dom/demo.yaml").read_text() == FLOW
    first, second = told(found)
    assert ("writer" in first["agents"], "dom:demo" in first["flows"]) == (True, False)
    assert "dom:demo" in second["flows"]


async def test_a_flow_that_names_an_unknown_agent_is_not_written(project: ProjectFolder) -> None:
    """T36: "checks that all referenced agent names exist in the catalog"; on failure no event."""
    project.write("agents/writers.md", WRITER.replace("writer", "writers"))
    found = await at_work(project, call("flow_write", path="demo", content=FLOW))
    (answer,) = found.outputs()
    assert (answer["written"], answer["path"]) == (False, "flows/demo.yaml")
    assert answer["diagnostics"] == [
        {
            "line": 4,
            "severity": "error",
            "message": 'unknown agent "writer" in step "look"',
            "suggestion": 'did you mean "writers"?',
        }
    ]
    assert told(found) == []
    assert not (project.root / "flows").exists()


@pytest.mark.parametrize("tool_id", ["agent_write", "flow_write"])
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../x.md", "path is outside the project: ../x.md"),
        ("docs/x.md", "must be"),
    ],
)
async def test_nothing_is_written_elsewhere(
    project: ProjectFolder, tool_id: str, path: str, error: str
) -> None:
    content = WRITER if tool_id == "agent_write" else FLOW
    found = await at_work(project, call(tool_id, path=path, content=content))
    (answer,) = found.outputs()
    assert (answer["written"], answer["path"]) == (False, path)
    assert error in answer["error"]
    assert told(found) == []


ARCHITECT = SessionGuard(agent="flow-architect", is_architect=True)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "INVALID_INPUT"),
        ({"path": "a", "name": "a"}, "INVALID_INPUT"),
        ({"path": ""}, "INVALID_INPUT"),
        ({"path": "a", "x": 1}, "INVALID_INPUT"),
        ({"path": "a"}, "NOT_CONFIGURED"),
    ],
)
@pytest.mark.parametrize("tool_id", ["agent_write", "flow_write"])
async def test_one_place_is_named_in_a_project(
    tool_id: str, given: dict[str, Any], code: str
) -> None:
    bench = await open_workbench(*TOOLS)
    caller = replace(bench.model, session=ARCHITECT)
    envelope = await bench.call(tool_id, {**given, "content": WRITER}, caller=caller)
    assert envelope.error is not None
    assert envelope.error.code == code


async def test_writing_agents_and_flows_requires_the_permission() -> None:
    bench = await open_workbench(*TOOLS)
    reader = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat", "read"}))
    caller = replace(bench.model, session=ARCHITECT, profile=reader)
    envelope = await bench.call("agent_write", {"path": "a", "content": WRITER}, caller=caller)
    assert envelope.error is not None
    assert envelope.error.code == "NOT_PERMITTED"
