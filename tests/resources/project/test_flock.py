"""The lock on a folder: what another process finds of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import OutOfResources
from penstock.resources.project.flock import held
from tests.kit.exhausted_process import no_files_left

PROBE = """
import fcntl, os, sys
place = os.open(sys.argv[1], os.O_RDONLY)
try:
    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except BlockingIOError:
    print("held")
"""


def probe(folder: Path) -> str:
    """Return how another process finds the folder."""
    asked = [sys.executable, "-ISc", PROBE, str(folder)]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.programs
def test_a_locked_folder_is_locked_for_other_processes(tmp_path: Path) -> None:
    with held(tmp_path) as is_held:
        assert (is_held, probe(tmp_path)) == (True, "held")
    assert probe(tmp_path) == "free"
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("gone", "file"):
        with held(tmp_path / name) as is_held:
            assert not is_held


def test_a_folder_lock_survives_a_lack_of_descriptors(tmp_path: Path) -> None:
    """A write without the lock would lose the writes of another process."""
    with no_files_left(), pytest.raises(OutOfResources), held(tmp_path):
        pass
    with held(tmp_path) as is_held:
        assert is_held
