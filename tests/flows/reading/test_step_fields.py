"""The table of fields, and the kind of a step that does not say it."""

import pytest

from penstock.flows.definition import StepKind
from penstock.flows.reading.step_fields import CLASSES, FIELDS, FIELDS_OF, inferred, owners


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("id agent path", StepKind.AGENT),
        ("id question loop_target", StepKind.LOOP_DECISION),
        ("id agent branches", StepKind.AGENT_DECISION),
        ("id question branches agent", StepKind.FORK),
        ("id check present absent", StepKind.CONDITIONAL),
        ("id command", StepKind.SHELL),
        ("id path", StepKind.FLOW_REF),
        ("id path branches", StepKind.FLOW_REF),
        ("id question check command", StepKind.FORK),
        ("id", StepKind.AGENT),
        ("id outputs", StepKind.AGENT),
    ],
)
def test_the_kind_is_told_by_the_first_key_that_fits(keys: str, kind: StepKind) -> None:
    """`type:` if given, else the first that matches; code is never inferred."""
    assert inferred(dict.fromkeys(keys.split()))[0] == kind


def test_every_kind_has_a_class_with_the_attributes_of_its_fields() -> None:
    for kind, rows in FIELDS_OF.items():
        attributes = {row.attribute for row in rows.values() if row.attribute}
        assert attributes <= set(dir(CLASSES[kind])), kind


def test_a_key_is_read_in_one_way_by_one_kind() -> None:
    pairs = [(row.key, kind) for row in FIELDS for kind in row.kinds]
    assert len(pairs) == len(set(pairs))
    assert all(set(row.needed_by) <= set(row.kinds) for row in FIELDS)


def test_the_owners_of_a_field() -> None:
    assert owners("timeout") == [StepKind.SHELL, StepKind.CODE, StepKind.CODE_DECISION]
    assert owners("nothing") == []
