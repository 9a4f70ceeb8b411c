"""Options of the chaos journeys."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the page on durability be written anew."""
    parser.addoption("--write-durability", action="store_true", help="write docs/durability.md")
