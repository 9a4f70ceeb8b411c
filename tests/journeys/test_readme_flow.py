"""The flow of the README, checked and run beside the examples as it stands there."""

import re
import shutil
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main

ROOT = Path(penstock.__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGES = re.compile(r"q_[0-9a-z]+|\d+\.\d s|\d+ tokens")
"""What is another each time: ids, times, and what the models were told by then."""


def _found(pattern: str) -> str:
    found = re.search(pattern, README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.slow("runs a flow in a project of its own")
def test_the_flow_of_the_readme_runs_as_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", project, ignore=shutil.ignore_patterns(".penstock"))
    (project / "flows/trip.yaml").write_text(_found(r"^```yaml\n(name: trip\n.*?)^```"))
    where = ["--project", str(project)]
    assert main(["flow", "check", "trip", "--strict", *where]) == 0
    capsys.readouterr()
    assert main(["flow", "run", "trip", *where]) == 4
    said = CHANGES.sub("", "".join(capsys.readouterr())).splitlines()
    shown = CHANGES.sub("", _found(r"^\$ penstock flow run trip\n(.*?)^```")).splitlines()
    missing = [each for each in shown if not _is_said(each.rstrip("…").rstrip(), said)]
    assert missing == []


def _is_said(line: str, said: list[str]) -> bool:
    return any(each.startswith(line) for each in said)
