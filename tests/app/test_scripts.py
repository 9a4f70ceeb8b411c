"""Where the scripts of a project run."""

import sys
from pathlib import Path

import pytest

from penstock.app.scripts import ProjectSandbox
from penstock.core.call_errors import Cancelled
from penstock.sandbox.script import Bounds, Module, Script
from penstock.testing.bridge import FakeBridge

ONE = Module(name="a.mjs", source="export const run = ({ n }) => n + 1;", imports={})
SCRIPT = Script(entry="a.mjs", entrypoint="run", modules={"a.mjs": ONE}, digest="1")
BOUNDS = Bounds(seconds=5)


async def test_the_engine_is_made_when_the_first_script_runs(machine_code: Path) -> None:
    sandbox = ProjectSandbox(machine_code)
    outputs = [await sandbox.run(SCRIPT, {"n": n}, FakeBridge(), BOUNDS) for n in (1, 2)]
    await sandbox.close()
    assert outputs == [2, 3]
    assert "penstock.sandbox.quickjs" in sys.modules


async def test_a_sandbox_that_was_not_used_is_closed_without_an_engine(tmp_path: Path) -> None:
    await ProjectSandbox(tmp_path / "cache").close()
    assert not (tmp_path / "cache").exists()


async def test_a_closed_sandbox_runs_nothing(machine_code: Path) -> None:
    sandbox = ProjectSandbox(machine_code)
    await sandbox.run(SCRIPT, {"n": 1}, FakeBridge(), BOUNDS)
    await sandbox.close()
    with pytest.raises(Cancelled):
        await sandbox.run(SCRIPT, {"n": 1}, FakeBridge(), BOUNDS)
