"""The path of a call stays short: how many files it enters, and how often it moves between them."""

from threading import Thread

import pytest

from penstock.core.ids import new_id
from penstock.core.text import cut
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
    with recorder.attach(), recorder.record():
        cut("ab", 1)
        new_id("q")
        cut("ab", 1)
    hops = recorder.hops()
    assert hops.path == ("core/text.py", "core/ids.py")
    assert (hops.hops, hops.pairs[0]) == (3, ("core/text.py > core/ids.py", 1))


def test_the_recorder_counts_each_thread_separately() -> None:
    recorder = Recorder()
    with recorder.attach(), recorder.record():
        thread = Thread(target=cut, args=("ab", 1))
        thread.start()
        thread.join()
        new_id("q")
    assert (recorder.hops().files, recorder.hops().pairs) == (2, ())


def test_the_recorder_ignores_files_outside_the_package() -> None:
    recorder = Recorder()
    with recorder.attach(), recorder.record():
        ceilings()
    assert recorder.hops().entries == 0
