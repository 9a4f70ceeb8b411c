"""`penstock doctor`: what is installed, unreachable or misconfigured."""

import asyncio
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from penstock.cli.doctor import EXTRAS, confining
from penstock.cli.main import main
from penstock.cli.operations.findings import Finding, FindingLevel
from penstock.core.clock import SystemClock
from penstock.core.ids import TaskId
from penstock.sandbox.processes.process import found_layers
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.sql_log import SqlLog
from tests.kit.log_entries import CHAT, ONE, message, opened

Run = Callable[..., tuple[int, str, str]]


def test_a_new_project_is_fine(run: Run, run_json: Callable[..., Any]) -> None:
    code, out, _ = run("doctor")
    assert code == 0
    assert "✓ model offline: offline offline (the default)" in out
    assert "✓ database: " in out
    assert "✓ events: " in out
    assert "✓ tasks: " in out
    assert "✓ ready: database, migrations, disk, blobs: all work" in out
    assert "✓ engine wasm: ready (the default)" in out
    assert "· hardened: the operating system does not confine scripts" in out
    assert run_json("doctor")["ok"] is True


@pytest.mark.programs
def test_every_layer_that_confines_scripts_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`penstock doctor` and `/api/ready` say what is missing."""
    layers = found_layers()
    monkeypatch.setenv("PENSTOCK_SANDBOX__HARDENED", '"auto"')
    code, out, _ = run("doctor")
    for layer, why in layers.items():
        result = (
            f"· hardened {layer}: this machine lacks it" if why else f"✓ hardened {layer}: conf"
        )
        assert result in out
    monkeypatch.setenv("PENSTOCK_SANDBOX__HARDENED", "true")
    assert (code, run("doctor")[0]) == (0, int(any(layers.values())))


def test_an_unsupported_layer_is_reported_with_its_reason() -> None:
    layers = {"landlock": "", "seccomp": "its numbers are not known for pdp11"}
    assert [*confining(layers, lacks=FindingLevel.WRONG)] == [
        Finding(FindingLevel.FINE, "hardened landlock", "confines scripts"),
        Finding(
            FindingLevel.WRONG,
            "hardened seccomp",
            "not available on this machine: its numbers are not known for pdp11",
        ),
    ]


def test_lists_are_rebuilt_from_the_logs(run: Run, run_json: Callable[..., Any]) -> None:
    run("chat", "hello name=Ann")
    before = run_json("tasks", "list")
    assert "✓ lists: rebuilt from 1 log" in run("doctor", "--rebuild")[1]
    assert run_json("tasks", "list") == before


async def queue_behind_a_broken_row(url: str) -> TaskId:
    """Leave an unfinished task in an unreadable log."""
    database = await open_database(url)
    log = SqlLog(database, open_blobs("memory:///"), SystemClock())
    await log.send(CHAT, [opened(), message()])
    spoil = text("UPDATE events SET body = '{bro' WHERE seq = 1")
    await database.write(lambda connection: connection.execute(spoil))
    await database.close()
    return ONE


def test_a_task_with_a_corrupt_log_is_reported_and_unchanged(
    run: Run, project: Path, run_json: Callable[..., Any]
) -> None:
    """A backup may make it readable again, so the task is not ended."""
    run("tasks", "list")
    url = f"sqlite:///{project}/.penstock/penstock.db"
    task_id = asyncio.run(queue_behind_a_broken_row(url))
    (first,), (task,) = (run_json("tasks", "list")["tasks"] for _ in range(2))
    assert (first["status"], task["status"]) == ("queued", "queued")
    code, out, _ = run("doctor")
    assert code == 1
    assert f"✗ tasks: {task_id} cannot continue: event 1 of log 'conv_1' cannot be read: " in out
    assert "Restore the database from a copy, or delete this conversation, call or run: " in out
    assert "penstock erase --log conv_1 --yes" in out
    code, out, _ = run("doctor", "--rebuild")
    assert (code, run_json("tasks", "list")["tasks"]) == (1, [task])
    assert "✗ lists: not rebuilt: event 1 of log 'conv_1' cannot be read: " in out


def test_a_log_with_a_missing_event_is_named_and_hides_no_other(
    run: Run, project: Path, run_json: Callable[..., Any]
) -> None:
    run("chat", "hello name=Ann")
    run("chat", "hello name=Bob")
    before = run_json("tasks", "list")["tasks"]
    log_id = before[0]["conversationId"]
    asyncio.run(drop_row(f"sqlite:///{project}/.penstock/penstock.db", log_id))
    assert [each["id"] for each in run_json("tasks", "list")["tasks"]] == [
        each["id"] for each in before
    ]
    code, out, _ = run("doctor")
    assert code == 1
    assert f"✗ events: missing: event 3 of log '{log_id}', which has " in out
    assert "Restore the database from a backup, or delete these logs: penstock erase --log" in out


async def drop_row(url: str, log_id: str) -> None:
    database = await open_database(url)
    drop = text("DELETE FROM events WHERE log_id = :log AND seq = 3").bindparams(log=log_id)
    await database.write(lambda connection: connection.execute(drop))
    await database.close()


WRONG = [
    ("penstock.toml", "x = 1", "✗ project: penstock.toml:1: x is not a setting."),
    ("agents/bad.md", "", "✗ file: agents/bad.md:1:1: error no-front-matter: "),
    ("agents/a.md", "---\nname: a\nmodel: fst\n---\n", "✗ model fst: there is no model 'fst'."),
    (
        "penstock.toml",
        '[models]\ndefault = "m"\n[models.m]\nprovider = "openai"\nmodel = "m"\n',
        "✗ model m: the model 'm' needs a key",
    ),
    (
        "penstock.toml",
        '[models.m]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n',
        "✗ model m: openai m; cannot connect to http://127.0.0.1:9/v1: ",
    ),
    ("penstock.toml", "[limits]\nfree_bytes = 4611686018427387904\n", "✗ disk: "),
    (".penstock/penstock.db", "no database", "✗ database: sqlite:///"),
]


@pytest.mark.parametrize(("file", "content", "message"), WRONG)
def test_problems_are_reported_with_exit_code_1(
    run: Run, project: Path, file: str, content: str, message: str
) -> None:
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text(content)
    code, out, _ = run("doctor")
    assert code == 1
    assert message in out


def test_a_missing_project_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 1
    assert "Make one with `penstock init`" in capsys.readouterr().out


def test_every_installable_extra_is_checked() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    bring_something = {name for name, packages in extras.items() if packages}
    assert set(EXTRAS) == bring_something - {"dev"}
