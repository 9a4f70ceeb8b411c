"""Simulated visits and sample values."""

from typing import Any

import pytest

from penstock.core.events.flow_events import Output, ValueType
from penstock.flows.dry_run.steps import (
    inputs_of,
    simulated_agent,
    value_of,
    without_patterns,
)
from tests.flows.dry_run.walks import AGENTS, dry, dry_lines, unwalked
from tests.flows.texts import read

CODE = "- {id: count, type: code, outputs: [{name: n, type: number}], on_error: save}\n"
SHELL = "- {id: build, command: 'touch built; exit 1', on_error: save}\n"
SAVE = "- {id: save, agent: scout, task: '${{result.count.n}}'}\n"


def test_a_command_and_a_module_fail_once_each_and_are_never_run() -> None:
    """Output of its declared type, handler loaded and not run; failure once with on_error."""
    run = dry(CODE + SHELL + SAVE)
    assert (run.runs, unwalked(run), run.results["count"].outputs) == (3, [], {"n": 1})


def test_the_choice_of_a_code_decision_is_made_up() -> None:
    step = "- {id: pick, type: code-decision, branches: {a: one, b: two}}\n"
    run = dry(step + "- {id: one, agent: scout, end: true}\n- {id: two, agent: scout}\n")
    assert (run.reached, unwalked(run)) == (("pick", "one", "two"), [])


def test_a_step_that_did_not_run_is_absent() -> None:
    """Present and absent; but what was never there cannot be present."""
    ask = "- {id: ask, check: late.summary, present: late, absent: done}\n"
    steps = ask + "- {id: done, agent: scout, end: true}\n- {id: late, agent: scout}\n"
    run = dry(steps)
    assert unwalked(run) == [("ask", "present")]
    assert dry_lines(steps) == [
        '4 warning dry-branch-unwalked: none of 2 runs took "present" of step "ask"',
        '6 warning dry-unreachable: none of 2 runs reached step "late"',
    ]


def test_an_agent_returns_its_declared_outputs_and_uses_no_tool() -> None:
    """`finish complete` with every declared output filled."""
    run = dry("- {id: look, agent: finder, outputs: [{name: year, pattern: '^[0-9]+$'}]}\n")
    assert run.results["look"].outputs == {"topics": ["sample"], "year": "sample"}


def test_agents_receive_no_files() -> None:
    assert dry_lines("- {id: look, agent: scout, inputs: {text: 'file://secret.txt'}}\n") == []


def test_a_nested_flow_runs_and_fails_once() -> None:
    """flow-ref: walked inside; a glob: each match."""
    inner = "- {id: sum, agent: scout}\n- {id: more, agent: scout}\n"
    steps = "- {id: all, path: 's*.yaml', on_error: mend}\n- {id: mend, agent: fixer}\n"
    run = dry(steps, {"suite": inner, "second": inner})
    assert (run.starts, unwalked(run)) == (6 + 4, [])


def test_a_path_from_a_result_means_any_flow() -> None:
    steps = "- {id: look, agent: scout}\n- {id: go, path: '${{result.look.summary}}.yaml'}\n"
    assert dry_lines(steps) == []


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({}, "sample"),
        ({"value_type": ValueType.NUMBER}, 1),
        ({"value_type": ValueType.BOOLEAN}, True),
        ({"value_type": ValueType.ARRAY}, ["sample"]),
        ({"value_type": ValueType.OBJECT}, {"sample": "sample"}),
        ({"pattern": "^(pass|fail)$"}, "pass"),
        ({"pattern": "^[0-9]{4}$"}, "1234"),
        ({"pattern": "^[a-z]+$"}, "sample"),
        ({"pattern": "("}, "sample"),
        ({"pattern": f"(a+)+$|{'a' * 60}X"}, "a"),
        ({"pattern": "^(?=sam)"}, "sample"),
    ],
)
def test_a_sample_value_fits_the_type_and_the_pattern(more: Any, value: Any) -> None:
    """Every declared output filled (by type: `sample`, 1, true, first of an enum)."""
    assert value_of(Output(name="x", **more)) == value


def test_a_simulated_agent_has_no_tool_and_accepts_any_text() -> None:
    agent = simulated_agent(AGENTS.get("finder"))
    assert (agent.tools, agent.profile.tools) == ((), ())
    assert without_patterns([Output(name="x", pattern="^a$")]) == (Output(name="x"),)


def test_inputs_have_their_defaults() -> None:
    text = "- {id: a, agent: x}\ninputs: {n: {type: number}, s: {type: string, default: dark}}\n"
    flow = read(text).flow
    assert flow
    assert inputs_of(flow) == {"n": 1, "s": "dark"}
