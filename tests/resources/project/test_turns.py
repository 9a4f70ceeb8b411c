"""Turns at a file of a project."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from penstock.resources.project.turns import turn

ROUNDS, WRITERS = 20, 8


@pytest.mark.parametrize("path", ["count", "below/count", "gone/count"])
def test_who_has_a_turn_is_alone_with_the_file(tmp_path: Path, path: str) -> None:
    (tmp_path / "below").mkdir()
    counted, barrier = {"n": 0}, Barrier(WRITERS)

    def count(_: int) -> None:
        barrier.wait()
        for _ in range(ROUNDS):
            with turn(tmp_path, path):
                before = counted["n"]
                (tmp_path / "pause").write_text(str(before))
                counted["n"] = before + 1

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(count, range(WRITERS)))
    assert counted["n"] == ROUNDS * WRITERS


def test_a_turn_ends_with_what_was_raised_in_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), turn(tmp_path, "f"):
        raise KeyError
    with turn(tmp_path, "f"):
        pass
