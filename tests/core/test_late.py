"""Costly modules, when first needed."""

import subprocess
import sys

import pytest

from penstock.core.errors import ConfigError
from penstock.core.late import late

NOWHERE = "penstock.nowhere:thing"
NO_SUCH_NAME = "penstock.core.errors:thing"


def test_late_gives_the_very_thing() -> None:
    assert late("penstock.core.errors:ConfigError") is ConfigError


def test_what_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(
        ConfigError, match=r"'penstock\.nowhere'.*pip install 'penstock\[browser\]'"
    ):
        late(NOWHERE, extra="browser")


def test_what_the_base_install_misses_is_a_fault_and_stays_one() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        late(NOWHERE)


def test_a_name_that_is_not_there_is_no_missing_extra() -> None:
    with pytest.raises(AttributeError, match="thing"):
        late(NO_SUCH_NAME, extra="browser")


@pytest.mark.parametrize("costly", ["sqlalchemy", "fastapi", "httpx2", "pydantic_ai", "alembic"])
def test_the_window_opens_without_costly_libraries(costly: str) -> None:
    code = f"import sys, penstock; sys.exit({costly!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
