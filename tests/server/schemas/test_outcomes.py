"""What direct calls answer with."""

import json
from typing import Any

import pytest

from penstock.core.json_values.schema import Schema
from penstock.server.schemas.components import COMPONENTS
from penstock.server.schemas.outcomes import OUTCOMES

WHOLE = COMPONENTS | OUTCOMES


def component(name: str) -> Schema:
    """Return the schema of one component."""
    whole = json.dumps({"$ref": f"#/$defs/{name}", "$defs": WHOLE})
    return Schema(json.loads(whole.replace("#/components/schemas/", "#/$defs/")))


@pytest.mark.parametrize("name", OUTCOMES)
def test_each_is_a_schema_of_an_object_with_keys_that_are_known(name: str) -> None:
    others: tuple[Any, ...] = (7, None, [], {"nobody": "knows this"})
    for other in others:
        assert component(name).problems(other), other


def test_an_outcome_is_an_envelope_and_its_task() -> None:
    outcome = component("CallOutcome")
    assert outcome.problems({"status": "success", "output": None, "taskId": "task_1"}) == []
    assert outcome.problems({"status": "suspended", "taskId": "task_1"})
