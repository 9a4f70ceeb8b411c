"""A webhook: which events it wants, and its id."""

import pytest

from penstock.store.logs.webhook import QUESTION_ASKED, TASK_ENDED, Webhook

URL = "https://hooks.test/in"


@pytest.mark.parametrize(
    ("event", "kind", "agent", "is_wanted"),
    [
        (TASK_ENDED, "message", "scout-1", True),
        (QUESTION_ASKED, "message", "scout-1", False),
        (TASK_ENDED, "call", "scout-1", False),
        (TASK_ENDED, "message", "Scout-1", False),
        (TASK_ENDED, "message", "clerk", False),
    ],
)
def test_patterns_name_the_tasks_that_it_wants(
    event: str, kind: str, agent: str, *, is_wanted: bool
) -> None:
    hook = Webhook(
        url=URL, events=(TASK_ENDED,), vault_key="k", agents=("scout*",), kinds=("message",)
    )
    assert hook.wants(event, kind=kind, agent=agent) is is_wanted


def test_its_id_follows_from_its_url_alone() -> None:
    one = Webhook(url=URL, events=(TASK_ENDED,), vault_key="k")
    same = Webhook(url=URL, events=(QUESTION_ASKED,), vault_key="other", has_content=True)
    other = Webhook(url=f"{URL}?token=1", events=(TASK_ENDED,), vault_key="k")
    assert one.webhook_id == same.webhook_id != other.webhook_id
