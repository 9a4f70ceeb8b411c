"""Every file of the page for authors is written, and every command run, in the page's order."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

PAGE = Path(penstock.__file__).parents[1] / "docs" / "authoring.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow("starts a process for each command, and deno")
def test_every_command_of_the_page_runs(
    tmp_path: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    said, commands = "", 0
    for language, file, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if file:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif language == "sh":
            said, commands = run(text, tmp_path), commands + text.count("penstock ")
        elif language == "json":
            assert json.loads(said.splitlines()[-1]) == json.loads(text)
        else:
            assert said == text
    assert commands > 10


def run(lines: str, folder: Path) -> str:
    """Return what the commands print on stdout; each must end well."""
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", lines], cwd=folder, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, (lines, done.stdout.decode(), done.stderr.decode())
    return done.stdout.decode()
