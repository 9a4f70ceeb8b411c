"""Options of the chaos journeys."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the page on durability be written anew."""
    parser.addoption("--write-durability", action="store_true", help="write docs/durability.md")
