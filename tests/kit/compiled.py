"""Projects with scripts. Compiled scripts are cached between runs, because compiling is slow."""

import asyncio
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.wasm.quickjs import QuickJs
from tests.kit.project import ProjectFolder


@pytest.fixture(scope="session")
def machine_code(request: pytest.FixtureRequest) -> Path:
    """Return the folder that every process of the tests uses, with everything compiled."""
    kept = request.config.cache
    assert kept is not None
    place = kept.mkdir("compiled")
    with (place / "turn").open("w") as turn:
        flock(turn, LOCK_EX)  # what one worker compiles on all cores, the others read
        _compile(place / "penstock")
    return place / "penstock"


@pytest.fixture
def project(tmp_path: Path, machine_code: Path) -> ProjectFolder:
    """Return an empty project."""
    return ProjectFolder(tmp_path, machine_code)


def _compile(folder: Path) -> None:
    clock = SystemClock()
    sandbox = QuickJs(clock, folder)
    typescript, lexer = TypeScript(clock, folder), Lexer(clock, folder)
    sandbox.warm()
    asyncio.run(sandbox.close())
    typescript.strip_types("")
    typescript.close()
    lexer.scan("")
    lexer.close()
