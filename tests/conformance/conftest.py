"""Fixtures for tests that start and measure whole programs."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder, and of no other, as serial."""
    item.add_marker(pytest.mark.programs)
