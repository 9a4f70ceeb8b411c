"""The parsers and the scanner, created once for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import Scanner


@pytest.fixture(scope="session")
def typescript(machine_code: Path) -> Iterator[TypeScript]:
    strips = TypeScript(SystemClock(), machine_code)
    strips.strip_types("")
    yield strips
    strips.close()


@pytest.fixture(scope="session")
def lexer(machine_code: Path) -> Iterator[Lexer]:
    scans = Lexer(SystemClock(), machine_code)
    scans.scan("a")
    yield scans
    scans.close()


@pytest.fixture
def scanner(typescript: TypeScript, lexer: Lexer) -> Scanner:
    return Scanner(typescript, lexer)
