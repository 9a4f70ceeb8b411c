"""Work in the background of an open project: a webhook that a real server receives."""

import asyncio
import json
from pathlib import Path

import pytest

import penstock
from penstock import ConfigError, verify_webhook
from penstock.app.background.signature import SECRETS
from penstock.models.scripted import ScriptedModel, say
from tests.kit.origin import answer, origin


def settings(port: int) -> str:
    """Return penstock.toml with one webhook to this port."""
    here = f"http://127.0.0.1:{port}"
    return f"""
        [egress]
        allow = ["{here}"]
        allow_private = ["127.0.0.1:{port}"]
        [[webhooks]]
        url = "{here}/hook"
        events = ["task.ended"]
        secret = "hook"
        """


async def test_a_server_receives_the_end_of_a_task_also_one_of_an_earlier_process(
    tmp_path: Path,
) -> None:
    model = ScriptedModel({"": say("Hello.")})
    has_arrived = asyncio.Event()

    async def take(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        has_arrived.set()

    async with origin(take) as receiver:
        (tmp_path / "penstock.toml").write_text(settings(receiver.port))
        async with penstock.open(tmp_path, model=model, resume=False) as runtime:
            vault = runtime.parts.storage.vault
            assert vault is not None
            await vault.set(SECRETS, "hook", "a secret")
            reply = await runtime.chat("Hi")
            assert receiver.heard == []
        async with penstock.open(tmp_path, model=model), asyncio.timeout(5):
            await has_arrived.wait()
    head, _, body = receiver.heard[0].partition("\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:])
    assert verify_webhook(body.encode(), headers["x-penstock-signature"], "a secret")
    assert json.loads(body)["task"]["id"] == reply.task_id


async def test_a_webhook_without_a_secret_stops_the_start(tmp_path: Path) -> None:
    """Spec: "missing secret stops the start with a diagnostic"."""
    (tmp_path / "penstock.toml").write_text(settings(9))
    with pytest.raises(ConfigError, match=r"penstock vault set shared:webhooks hook"):
        async with penstock.open(tmp_path):
            pass
