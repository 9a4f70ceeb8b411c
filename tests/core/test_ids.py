"""Ids of events, calls, tasks and sessions."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

from penstock.core.ids import IdSource, new_id, new_secret

FORM = re.compile(r"conv_[0-9a-hjkmnp-tv-z]{26}")


def test_an_id_is_a_prefix_and_26_characters() -> None:
    ids = [new_id("conv") for _ in range(100)]
    assert [each for each in ids if not FORM.fullmatch(each)] == []


def test_ids_of_one_source_rise_strictly() -> None:
    source = IdSource()
    ids = [source("x") for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_ids_of_one_millisecond_rise_strictly() -> None:
    source = IdSource(now=lambda: 10**18)
    ids = [source("x") for _ in range(5_000)]
    assert ids == sorted(set(ids))
    assert len({each[: len("x_") + 10] for each in ids}) == 1  # the letters of the time
    assert len({each[-10:] for each in ids}) == 5_000


def test_a_clock_that_goes_back_does_not_matter() -> None:
    times = iter([2 * 10**18, 10**18, 3 * 10**18, 10**18])
    source = IdSource(now=lambda: next(times))
    ids = [source("x") for _ in range(4)]
    assert ids == sorted(set(ids))


def test_no_two_threads_get_the_same_id_and_each_sees_them_rise() -> None:
    source = IdSource()

    def many(_: int) -> list[str]:
        return [source("x") for _ in range(2_000)]

    with ThreadPoolExecutor(4) as threads:
        lists = list(threads.map(many, range(4)))
    assert all(each == sorted(each) for each in lists)
    assert len({each for ids in lists for each in ids}) == 8_000


def test_two_sources_never_meet() -> None:
    one, other = IdSource(), IdSource()
    assert not {one("x") for _ in range(1000)} & {other("x") for _ in range(1000)}


def test_a_secret_is_new_each_time() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()


def test_a_fork_draws_its_own_chance() -> None:
    source = IdSource()
    source("a")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, source("a").encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() != source("a")
    os.close(read)
    os.close(write)
