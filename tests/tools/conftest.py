"""Tools that count their calls."""

import pytest

from tests.kit.counting_tools import Counted


@pytest.fixture
def counted() -> Counted:
    """Tools that nothing has called yet."""
    return Counted()
