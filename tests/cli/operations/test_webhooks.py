"""`penstock webhooks`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOML = """
[[webhooks]]
url = "https://hooks.test/in?token=s3cret"
events = ["task.ended"]
secret = "hook"
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hooked(project: Path) -> Path:
    """A project with one webhook."""
    with (project / "penstock.toml").open("a") as file:
        file.write(TOML)
    return project


@pytest.mark.usefixtures("hooked")
def test_webhooks_and_deliveries_are_listed_without_secrets(
    run: Run, run_json: Callable[..., Any]
) -> None:
    run("call", "hello", "name=Ann")
    (webhook,) = run_json("webhooks", "list")["webhooks"]
    assert (webhook["origin"], webhook["status"]) == ("https://hooks.test", "active")
    (delivery,) = run_json("webhooks", "deliveries", "--status", "pending")["deliveries"]
    assert (delivery["type"], delivery["webhookId"]) == ("task.ended", webhook["id"])
    for words in (("list",), ("deliveries",)):
        code, out, _ = run("webhooks", *words)
        assert (code, "https://hooks.test" in out or delivery["id"] in out) == (0, True)
        assert "s3cret" not in out
    code, out, _ = run("webhooks", "redeliver", delivery["id"])
    assert (code, out) == (0, f"{delivery['id']} is sent now, or when the next server runs\n")


@pytest.mark.usefixtures("hooked")
def test_what_does_not_exist_is_reported(run: Run) -> None:
    code, _, err = run("webhooks", "redeliver", "dlv_other")
    assert (code, "there is no delivery 'dlv_other'" in err) == (1, True)
    assert run("webhooks", "resume", "wh_other")[1] == "wh_other was not paused\n"


def test_a_delivery_to_a_webhook_that_was_removed_is_not_sent_again(
    hooked: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    run("call", "hello", "name=Ann")
    (delivery,) = run_json("webhooks", "deliveries")["deliveries"]
    settings = hooked / "penstock.toml"
    settings.write_text(settings.read_text().replace(TOML, ""))
    code, _, err = run("webhooks", "redeliver", delivery["id"])
    assert (code, "not in penstock.toml any more" in err) == (1, True)
