"""Sample values of dry runs."""

from typing import Any

import pytest

from penstock.core.events.flow_events import Output, ValueType
from penstock.flows.dry_run.sample_values import (
    inputs_of,
    simulated_agent,
    value_of,
    without_patterns,
)
from tests.flows.dry_run.walks import AGENTS
from tests.flows.texts import read


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
def test_a_value_for_each_type_and_the_first_of_some_words(more: Any, value: Any) -> None:
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
