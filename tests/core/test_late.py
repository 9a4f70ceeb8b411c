"""Costly modules, when first needed."""

import sys
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.core.late import hidden, late, load_file, open_folder

NOWHERE = "penstock.nowhere:thing"
NO_SUCH_NAME = "penstock.core.errors:thing"


def test_late_returns_the_object_itself() -> None:
    assert late("penstock.core.errors:ConfigError") is ConfigError


def test_a_missing_module_is_reported_with_its_extra() -> None:
    with pytest.raises(
        ConfigError, match=r"'penstock\.nowhere'.*pip install 'penstock\[browser\]'"
    ):
        late(NOWHERE, extra="browser")


def test_the_error_of_a_missing_extra_uses_the_given_name() -> None:
    with pytest.raises(ConfigError, match=r"^Excel needs 'penstock\.nowhere'"):
        late(NOWHERE, extra="sheets", what="Excel")


def test_a_missing_module_of_the_base_install_stays_module_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        late(NOWHERE)


def test_an_unknown_name_is_not_a_missing_extra() -> None:
    with pytest.raises(AttributeError, match="thing"):
        late(NO_SUCH_NAME, extra="browser")


def test_a_file_is_run_once_under_its_name_and_sees_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from .two import N\nRUNS = [N]\n")
    (tmp_path / "two.py").write_text("N = 2\n")
    open_folder(tmp_path, "somewhere_of_ours")
    module = load_file(tmp_path / "one.py", "somewhere_of_ours.one")
    assert module.RUNS == [2]
    assert load_file(tmp_path / "one.py", "somewhere_of_ours.one") is module
    open_folder(tmp_path, "somewhere_of_ours")
    assert load_file(tmp_path / "one.py", "somewhere_of_ours.one") is not module


def test_a_file_that_breaks_leaves_no_half_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("X = 1\nraise ValueError('no')\n")
    with pytest.raises(ValueError, match="no"):
        load_file(tmp_path / "bad.py", "bad_of_ours")
    assert "bad_of_ours" not in sys.modules


def test_a_file_that_is_not_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="is not a Python file"):
        load_file(tmp_path / "x.unknown", "x_of_ours")


def test_a_hidden_module_is_not_there_until_it_is_wanted_again() -> None:
    with hidden("penstock.nowhere"), pytest.raises(ModuleNotFoundError, match="nowhere"):
        late(NOWHERE)
    assert "penstock.nowhere" not in sys.modules


def test_a_module_that_is_loaded_stays_while_it_is_hidden() -> None:
    with hidden("penstock.core.errors"):
        assert late("penstock.core.errors:ConfigError") is ConfigError
