"""Ids: a prefix, the time, chance; always rising, never twice."""

import re
import threading

from penstock.core.ids import IdSource, new_secret


def test_an_id_is_a_prefix_and_26_characters() -> None:
    assert re.fullmatch(r"task_[0-9a-hjkmnp-tv-z]{26}", IdSource()("task"))


def test_ids_of_one_source_rise_strictly_and_come_once() -> None:
    new_id = IdSource()
    ids = [new_id("msg") for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_threads_get_different_ids() -> None:
    new_id, made = IdSource(), list[str]()
    threads = [
        threading.Thread(target=lambda: made.extend(new_id("q") for _ in range(2_000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000


def test_two_sources_do_not_meet() -> None:
    one, other = IdSource(), IdSource()
    assert not {one("a") for _ in range(5_000)} & {other("a") for _ in range(5_000)}


def test_a_secret_is_32_bytes_and_never_the_same() -> None:
    assert len(new_secret()) == 32
    assert new_secret() != new_secret()
