"""The schemas of flows and runs use the values of the domain."""

import pytest

from penstock.app.run_feed import TYPES
from penstock.core.events.flow_events import StepStatus, ValueType
from penstock.core.json_values.schema import Schema
from penstock.flows.runs.plan import RunStatus
from penstock.server.flow_schemas import ENDED, FLOWS, RUN_STATES, STEP_STATES
from penstock.server.schemas import COMPONENTS


def test_closed_sets_are_those_of_the_domain() -> None:
    assert set(ENDED) == {each.value for each in RunStatus}
    assert set(STEP_STATES) >= {each.value for each in StepStatus}
    assert RUN_STATES[4:] == ENDED
    types = FLOWS["FlowSummary"]["properties"]["inputs"]["items"]["properties"]["type"]["enum"]
    assert types == [each.value for each in ValueType]


@pytest.mark.parametrize("name", FLOWS)
def test_each_schema_refuses_some_value(name: str) -> None:
    whole = {**FLOWS[name], "components": {"schemas": COMPONENTS | FLOWS}}
    for other in (7, "x", {"unknown": "knows this"}):
        assert Schema(whole).problems(other), other


def test_a_frame_has_a_known_type() -> None:
    schema = Schema(FLOWS["RunFrame"])
    for kind in TYPES:
        assert schema.problems({"type": kind, "runId": "task_1", "seq": 1}) == []
    assert schema.problems({"type": "flow_other", "runId": "task_1", "seq": 1})
