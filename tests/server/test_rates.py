"""Fixed windows of a minute."""

import pytest

from penstock.app.settings_sections import RateSection
from penstock.core.clock import Moment
from penstock.core.errors import RateLimited
from penstock.server.rates import Rates, RateUsage, kind_of

NOON = Moment(60_000 * 1000)


def test_each_caller_and_class_has_its_own_count() -> None:
    rates = Rates(RateSection(chat=1, bulk=3, general=2))
    assert rates.count("ann", "chat", NOON) == RateUsage(1, 0, 60_060)
    assert rates.count("ann", "chat", NOON) == RateUsage(1, -1, 60_060)
    assert rates.count("ann", "general", NOON) == RateUsage(2, 1, 60_060)
    assert rates.count("ann", "bulk", NOON) == RateUsage(3, 2, 60_060)
    assert rates.count("bob", "chat", NOON) == RateUsage(1, 0, 60_060)


def test_a_new_window_starts_at_zero() -> None:
    rates = Rates(RateSection(chat=1))
    rates.count("ann", "chat", NOON)
    assert rates.count("ann", "chat", Moment(NOON + 60_000)) == RateUsage(1, 0, 60_120)


def test_zero_means_no_limit() -> None:
    assert Rates(RateSection(chat=0)).count("ann", "chat", NOON) is None


def test_a_request_over_the_limit_gets_retry_after() -> None:
    rates = Rates(RateSection(chat=1))
    rates.check(RateUsage(1, 0, 60_060), "chat", NOON)
    with pytest.raises(RateLimited, match="try again in 60 s") as caught:
        rates.check(RateUsage(1, -1, 60_060), "chat", NOON)
    assert caught.value.details == {"retryAfter": 60}


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/api/agents/a/chat", "chat"),
        ("POST", "/api/agents/a/chat/messages/m/regenerate", "chat"),
        ("DELETE", "/api/agents/a/chat", "bulk"),
        ("DELETE", "/api/agents/a/chat/conversations/c", "general"),
        ("GET", "/api/agents/a/chat", "general"),
        ("POST", "/api/agents/a/chat/conversations", "general"),
        ("POST", "/chat", "general"),
    ],
)
def test_each_request_has_its_rate_class(method: str, path: str, kind: str) -> None:
    assert kind_of(method, path) == kind
