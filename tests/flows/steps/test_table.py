"""The table of kinds: the fields of each, the kind of a step without `type`, and visits."""

from typing import Any

import pytest

from penstock.flows.steps.table import FIELDS_OF, KINDS, StepRunner, inferred, owners
from tests.flows.texts import step_of


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("id agent path", "agent"),
        ("id question loop_target", "agent-loop-decision"),
        ("id agent branches", "agent-decision"),
        ("id question branches agent", "fork"),
        ("id check present absent", "conditional"),
        ("id command", "shell"),
        ("id path", "flow-ref"),
        ("id path branches", "flow-ref"),
        ("id question check command", "fork"),
        ("id", "agent"),
        ("id outputs", "agent"),
    ],
)
def test_the_most_specific_key_implies_the_kind_of_a_step(keys: str, kind: str) -> None:
    """`type:` if given, else the first that matches; code is never inferred."""
    assert inferred(keys.split())[0] == kind


def test_a_field_belongs_to_each_kind_that_lists_it() -> None:
    assert owners("timeout") == ["shell", "code", "code-decision"]
    assert owners("nothing") == []


def test_every_kind_has_an_attribute_for_each_of_its_fields() -> None:
    for name, fields in FIELDS_OF.items():
        attributes = {field.attribute for field in fields.values() if field.attribute}
        assert attributes <= set(KINDS[name].step.__struct_fields__), name


def test_a_kind_lists_each_key_once() -> None:
    for name, kind in KINDS.items():
        keys = [field.key for field in kind.fields]
        assert len(keys) == len(set(keys)), name


def test_a_kind_that_a_field_implies_has_that_field() -> None:
    for name, kind in KINDS.items():
        assert not kind.implied_by or kind.implied_by in FIELDS_OF[name]


async def test_a_flow_ref_is_not_a_visit_of_the_step_runner() -> None:
    """The FlowRunner runs it, because a nested run shares its limits and its log."""
    step: Any = step_of("id: a, path: sub.yaml")
    nothing: Any = None
    with pytest.raises(TypeError, match="FlowRunner"):
        await StepRunner(nothing).visit(step, nothing)
