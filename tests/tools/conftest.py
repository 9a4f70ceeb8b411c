"""Tools that count, for every test of the package."""

import pytest

from tests.kit.counted import Counted


@pytest.fixture
def counted() -> Counted:
    """Tools that nothing has called yet."""
    return Counted()
