"""Tools that count, for every test of a floor."""

import pytest

from tests.kit.counted import Counted


@pytest.fixture
def counted() -> Counted:
    """Tools that nothing has called yet."""
    return Counted()
