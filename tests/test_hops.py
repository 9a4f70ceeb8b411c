"""The path of a call stays short: how many files it enters, and how often it moves between them."""

import pytest

from scripts.hops import Recorder, ceilings, measure

pytestmark = pytest.mark.slow("opens a project and waits for background work to finish")


def test_a_call_and_a_chat_turn_stay_below_their_ceilings() -> None:
    measured = measure()
    assert set(measured) == set(ceilings())
    for name, ceiling in ceilings().items():
        found = measured[name]
        assert found.files <= ceiling["files"], (name, found.path)
        assert found.hops <= ceiling["hops"], (name, found.pairs)


def test_the_recorder_counts_files_and_moves_between_them() -> None:
    recorder = Recorder()
    with recorder.record():
        ceilings()
    assert recorder.hops().entries == 0, "scripts are no part of the package"
