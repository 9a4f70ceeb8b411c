"""The chaos journeys: their option, and their mark, as each of them kills programs."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Whether the page on durability is written again."""
    parser.addoption("--write-durability", action="store_true", help="write docs/durability.md")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder, and of no other."""
    item.add_marker(pytest.mark.programs)
    item.add_marker(pytest.mark.chaos)
