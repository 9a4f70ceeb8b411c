"""What a module returned, against what its step declares."""

from typing import Any

import pytest

from penstock.core.call_errors import (
    CallError,
    OutOfMemory,
    ScriptError,
    ScriptLoadError,
    ToolTimeout,
)
from penstock.core.envelope import Envelope
from penstock.core.events.flow_events import Outcome, Output, ValueType
from penstock.flows.code.results import conclude, wanted
from penstock.flows.definition import Code, CodeDecision

NONE = Code(step_id="s")
TWO = Code(step_id="s", outputs=(Output(name="a"), Output(name="b")))
ROUTE = CodeDecision(step_id="s", branches={"x": "s"})


def returned(step: Code, value: Any, **more: Any) -> Any:
    return conclude(step, Envelope.success({"value": value, **more}))


@pytest.mark.parametrize(
    ("value", "more", "summary"),
    [
        ({"a": 1, "b": 2}, {}, "returned a, b"),
        ({"a": 1, "b": 2}, {"summary": "two"}, "two"),
        ({"a": 1, "b": 2}, {"summary": 7}, "returned a, b"),
        ({"b": {"k": None}, "a": [True]}, {}, "returned b, a"),
    ],
)
def test_outputs_are_kept_as_they_are(value: Any, more: dict[str, Any], summary: str) -> None:
    """The step's summary: default `returned a, b`."""
    ended = returned(TWO, value, **more)
    assert (ended.result.outputs, ended.result.summary) == (value, summary)


@pytest.mark.parametrize("value", [None, {}])
def test_a_step_without_outputs_returns_nothing(value: Any) -> None:
    result = returned(NONE, value).result
    assert (result.summary, result.full_output, result.outputs) == (*["returned nothing"] * 2, {})


@pytest.mark.parametrize("output", [None, [], "x", {"value": None}])
def test_an_envelope_without_the_expected_shape_has_no_output(output: Any) -> None:
    """A module may have changed what its world is made of."""
    assert conclude(NONE, Envelope.success(output)).outcome is Outcome.SUCCESS
    assert conclude(ROUTE, Envelope.success(output)).source == "code_no_branch"


@pytest.mark.parametrize(
    ("value_type", "good", "bad"),
    [
        (ValueType.STRING, ["", "a"], [1, None, ["a"]]),
        (ValueType.NUMBER, [0, 1.5], ["1", True, None]),
        (ValueType.BOOLEAN, [True, False], [0, "true", None]),
        (ValueType.OBJECT, [{}, {"a": 1}], [[], None, "{}"]),
        (ValueType.ARRAY, [[], [None]], [{}, None, "[]"]),
        (None, [None, 1, "a", [], {}], []),
    ],
)
def test_a_declared_type_is_checked(
    value_type: ValueType | None, good: list[Any], bad: list[Any]
) -> None:
    step = Code(step_id="s", outputs=(Output(name="a", value_type=value_type),))
    assert {returned(step, {"a": each}).source for each in good} == {""}
    assert {returned(step, {"a": each}).source for each in bad} <= {"code_node"}


@pytest.mark.parametrize(
    ("error", "source", "outcome"),
    [
        (ScriptError("no"), "code_node", Outcome.SOFT),
        (ScriptError("no", details={"name": "Error"}), "code_node", Outcome.SOFT),
        (ScriptError("no", details={"name": "FlowHardError"}), "flow_hard_error", Outcome.HARD),
        (ScriptLoadError("no"), "code_node", Outcome.SOFT),
        (OutOfMemory("no"), "code_node", Outcome.SOFT),
        (ToolTimeout("no"), "code_timeout", Outcome.SOFT),
    ],
)
def test_an_error_of_the_module_is_one_of_its_step(
    error: CallError, source: str, outcome: Outcome
) -> None:
    ended = conclude(NONE, error.envelope())
    assert (ended.source, ended.outcome, ended.text) == (source, outcome, "no")
    assert ended.result.summary == "no"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (NONE, "nothing"),
        (TWO, "an object with exactly a, b"),
        (ROUTE, "an object with exactly branch"),
    ],
)
def test_the_expected_result_is_described_in_words(step: Code, words: str) -> None:
    assert wanted(step) == words
