"""Rules of retention match by kind, age, agent and end."""

import pytest

from penstock.core.clock import Moment
from penstock.core.ids import LogId
from penstock.store.upkeep.rules import DAY, KEEP_ALL, OldLog, RetentionRule


@pytest.mark.parametrize(
    ("agent", "is_matched"), [("*", True), ("scout", True), ("sc*", True), ("clerk", False)]
)
def test_a_rule_names_agents_by_a_pattern(agent: str, is_matched: bool) -> None:
    rule = RetentionRule(of="conversations", days=1, agent=agent)
    old = OldLog(
        log_id=LogId("conv_1"), of="conversations", agent="scout", at=Moment(0), status=frozenset()
    )
    assert rule.matches(old, Moment(DAY)) is is_matched
    assert not rule.matches(old, Moment(DAY - 1))


def test_by_default_no_rule_matches() -> None:
    assert KEEP_ALL.rules == ()
