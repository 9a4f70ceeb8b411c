"""Marks the tests of what is built and served."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder, and of no other: most of them start programs."""
    item.add_marker(pytest.mark.programs)
    item.add_marker(pytest.mark.conformance)
