"""Every test here starts processes and confines them."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder."""
    item.add_marker(pytest.mark.programs)
