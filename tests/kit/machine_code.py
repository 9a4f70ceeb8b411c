"""Where compiled blobs of the sandbox are kept from run to run: to compile them takes seconds."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def machine_code() -> Path:
    """Return the folder that every process of the tests uses."""
    return Path(os.environ["XDG_CACHE_HOME"]) / "penstock"
