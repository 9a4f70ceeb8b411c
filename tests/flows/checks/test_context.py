"""The context of checks, and the flow as checks see it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_folders import load_agents
from penstock.agents.agent_profile import AgentInput, AgentProfile
from penstock.core.events.flow_events import Output
from penstock.flows.checking import check_flow
from penstock.flows.checks.context import (
    MAX_COMPARED,
    AgentCard,
    CheckContext,
    FlowView,
    RefTarget,
    cards_of,
    follow,
    is_literal,
    module_of,
    resolve,
)
from penstock.flows.parsing import read_flow
from penstock.flows.steps.code import Code
from tests.flows.checks.findings import SEED, beside
from tests.flows.texts import TOP, read
from tests.kit.worked_examples import SUITES, W10


def test_an_empty_context_knows_nothing() -> None:
    check_context = CheckContext()
    assert (
        check_context.folder,
        check_context.flow_at("x.yaml"),
        check_context.has_file("x.mts"),
    ) == ("", None, False)
    assert check_context.code_fault("x.mts") is None


def test_the_folder_of_a_context_is_that_of_its_file() -> None:
    assert CheckContext(file="flows/dom/x.yaml").folder == "flows/dom"


def test_only_agents_with_a_file_have_cards() -> None:
    agent_profile = AgentProfile(
        inputs=(AgentInput(name="notes"),),
        outputs=(Output(name="topics"),),
        body_inputs=frozenset({"more"}),
        is_interactive=False,
        file="agents/a.md",
    )
    assert cards_of([Agent("a", profile=agent_profile), Agent("b")]) == {
        "a": AgentCard(
            name="a",
            inputs=("notes",),
            outputs=("topics",),
            body_inputs=frozenset({"more"}),
            is_interactive=False,
            file="agents/a.md",
        )
    }


NEW = """name: flows:new
description: Design a flow, and the agents it needs, from a description
task_required: true
steps:
  - {id: design, agent: flow-architect, task: "${{task}}"}
  - id: review
    question: "${{result.design.summary}} Keep this flow?"
    branches: {Keep: report, Change: design}
    task: "Keep the flow if it does what was asked: ${{task}}. Otherwise change it."
    max_iterations: 5
  - {id: report, agent: flow-architect, task: "What does ${{result.design.flow_path}} do?"}
"""


def test_the_built_in_flow_that_writes_flows_has_no_findings(tmp_path: Path) -> None:
    """Built-in agents and flows give no diagnostic."""
    check_context = CheckContext(agents=cards_of(load_agents(tmp_path).built_in))
    assert check_flow(read_flow(NEW), check_context) == []


FLAT = CheckContext(file="flows/dom/apply.yaml", command="dom:apply")
FOLDER = CheckContext(file="flows/dom/apply/flow.yaml", command="dom:apply")


@pytest.mark.parametrize(
    ("check_context", "target", "files", "expected"),
    [
        (FLAT, None, ["flows/dom/handlers/apply/c.mts"], "flows/dom/handlers/apply/c.mts"),
        (FLAT, None, [".pi/flows/handlers/dom/apply/c.js"], ".pi/flows/handlers/dom/apply/c.js"),
        (
            FLAT,
            None,
            ["flows/dom/handlers/apply/c.js", "flows/dom/handlers/apply/c.ts"],
            "flows/dom/handlers/apply/c.ts",
        ),
        (FLAT, None, ["flows/dom/apply/c.ts"], None),
        (FOLDER, None, ["flows/dom/apply/c.mjs"], "flows/dom/apply/c.mjs"),
        (FOLDER, None, ["flows/dom/apply/handlers/flow/c.mjs"], None),
        (FLAT, "x.mts", ["flows/dom/x.mts"], "flows/dom/x.mts"),
        (FLAT, "lib/x.mts", ["lib/x.mts"], "lib/x.mts"),
        (FLAT, "../../lib/x.mts", ["lib/x.mts"], "lib/x.mts"),
        (FLAT, "../../../x.mts", ["../x.mts"], None),
        (FLAT, "/x.mts", ["/x.mts", "x.mts"], None),
        (FLAT, "x", ["flows/dom/x.mts"], None),
    ],
)
def test_the_place_of_a_module_depends_on_the_form_of_the_flow(
    check_context: CheckContext, target: str | None, files: list[str], expected: str | None
) -> None:
    """7.9: `target`; directory form beside `flow.yaml`; flat form in `handlers/STEM`."""
    step = Code(step_id="c", target=target)
    assert module_of(step, replace(check_context, has_file=set(files).__contains__)) == expected


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("x.yaml", "flows", ["flows/x.yaml", "x.yaml"]),
        ("x.yaml", "", ["x.yaml"]),
        ("../x.yaml", "flows/a", ["flows/x.yaml"]),
        ("a/../../x.yaml", "flows", ["x.yaml"]),
        ("../../x.yaml", "flows", []),
        ("../x.yaml", "", []),
        ("/x.yaml", "flows", []),
        ("..x/y.yaml", "", ["..x/y.yaml"]),
    ],
)
def test_a_path_is_resolved_in_the_flows_folder_and_then_in_the_project(
    path: str, folder: str, expected: list[str]
) -> None:
    """Relative to the directory of this flow's file; relative to the project root."""
    assert resolve(path, folder) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("a.yaml", True), ("*.yaml", False), ("a?", False), ("${{task}}", False)]
)
def test_paths_with_templates_or_globs_stay_open(path: str, expected: bool) -> None:
    assert is_literal(path) is expected


def test_a_resolved_reference_brings_the_ids_of_its_flow() -> None:
    check_context = beside(SEED, {"flows/a.yaml": f"{TOP}- {{id: x, agent: b}}\n- {{agent: c}}\n"})
    steps = "- {id: r, path: a.yaml}\n- {id: s, path: '*'}\n- {id: t, path: b.yaml}\n"
    refs = follow(read(steps).steps, check_context)
    assert [(each.leads, each.path, each.brings) for each in refs.values()] == [
        (RefTarget.TO_A_FLOW, "flows/a.yaml", ("x",)),
        (RefTarget.OPEN, "", None),
        (RefTarget.MISSING, "", None),
    ]


def test_an_id_that_two_flows_bring_belongs_to_neither() -> None:
    """`STEP`: flat, only if no step of the parent and no other flow-ref of it has that id."""
    view = FlowView(read(W10), beside(SEED, SUITES))
    assert view.brought == {"look": "web"}
    assert (view.source("look"), view.source("sum"), view.source("unit")) == ("web", None, "unit")
    assert not view.is_open


def test_every_template_has_a_position() -> None:
    steps = "- id: a\n  agent: scout\n  task: t\n  inputs:\n    x: '${{result.b}}'\n"
    view = FlowView(read(f"{steps}- {{id: b, question: q, branches: {{y: a}}}}\n"), SEED)
    assert [(each.step.step_id, each.field) for each in view.written] == [
        ("a", "task"),
        ("a", "inputs"),
        ("b", "question"),
    ]
    assert [each.is_input for each in view.written] == [False, True, False]
    assert list(view.reads["a"]) == ["b"]


def test_invalid_jumps_are_left_out_of_reachability() -> None:
    steps = "- {id: a, agent: s, blockedBy: [a, b, z]}\n- {id: b, agent: s, blockedBy: [a]}\n"
    ways = FlowView(read(steps), SEED).reachability
    assert (ways.waits("b", "a"), ways.waits("a", "b")) == (True, False)


def test_suggestions_stop_after_a_limit_of_comparisons() -> None:
    view = FlowView(read("- {id: a, agent: s}\n"), SEED)
    names = [f"name{n}" for n in range(MAX_COMPARED)]
    assert view.near("name", names) == "name0"
    assert view.near("name", ["name0"]) is not None
    assert view.near("name", ["name0"]) is None


def test_a_template_in_a_literal_block_has_a_position_in_its_text() -> None:
    text = f"{TOP}- id: a\n  agent: s\n  task: |\n    one\n    two ${{{{x}}}}\n"
    view = FlowView(read(text.removeprefix(TOP)), SEED)
    (written,) = view.written
    place = view.place(written, written.template.broken[0])
    assert (place.line, place.column) == (8, 9)
