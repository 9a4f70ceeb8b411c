"""The promises of the pages are a part of their own: they check what the pages say."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder, and of no other."""
    item.add_marker(pytest.mark.conformance)
