"""What a kind may leave out: findings of its own, and attributes that follow from others."""

from typing import Any

from penstock.flows.steps.kind import StepKind, no_findings


async def _visit(*_: object) -> Any:
    return None


def test_a_kind_without_checks_of_its_own_has_no_findings() -> None:
    nothing: Any = None
    kind = StepKind(step=nothing, fields=(), visit=_visit)
    assert kind.check is no_findings
    assert list(kind.check(nothing, nothing, nothing)) == []


def test_a_kind_that_completes_nothing_leaves_the_attributes_as_they_are() -> None:
    nothing: Any = None
    values = {"agent": "scout"}
    StepKind(step=nothing, fields=(), visit=_visit).complete(nothing, values)
    assert values == {"agent": "scout"}
