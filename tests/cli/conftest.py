"""A project, and the command line on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.authoring.init import init
from penstock.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new project."""
    init(tmp_path)
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the project; returns its exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--project", str(project)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run a command that prints one JSON value."""

    def run_json(*arguments: str) -> Any:
        code, out, err = run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run_json
