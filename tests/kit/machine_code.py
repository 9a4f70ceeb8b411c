"""Where compiled blobs of the sandbox are kept from run to run: to compile them takes seconds."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def machine_code(request: pytest.FixtureRequest) -> Path:
    """Return the folder."""
    kept = request.config.cache
    assert kept is not None
    return kept.mkdir("machine-code")
