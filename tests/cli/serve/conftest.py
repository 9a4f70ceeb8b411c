"""The tests here wait for real sockets, or take every file descriptor."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder."""
    item.add_marker(pytest.mark.programs)
