"""The first delivery to a guest, its limits by their names in scripts, and synchronous answers."""

import json

from penstock.core.clock import SystemClock
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import EntryRequest, SeededBytes, begin_step, beginning, world_of
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import BEGINS_MS, FakeBridge
from tests.kit.scripts import script_of


def request(bridge: FakeBridge, bounds: Bounds) -> EntryRequest:
    timer = EntryTimer(SystemClock(), bounds.seconds, bounds.cpu_ms)
    return EntryRequest(script=script_of(""), bridge=bridge, bounds=bounds, timer=timer)


def test_a_script_begins_with_its_input_its_limits_and_the_time() -> None:
    first = beginning(request(FakeBridge(), Bounds(seconds=1, log_line_bytes=7)), {"n": 1})
    assert (first.kind, first.at_ms) == ("run", BEGINS_MS)
    assert first.value["input"] == {"n": 1}
    assert first.value["bounds"]["logLineBytes"] == 7
    assert len(first.value["chance"]) == 4


def test_a_synchronous_answer_is_a_value_or_a_refusal() -> None:
    bridge = FakeBridge({"known": lambda asked: asked})
    world = world_of(request(bridge, Bounds(seconds=1)))
    assert json.loads(world.answer("known", [1])) == {"value": [1]}
    assert json.loads(world.answer("unknown", 1))["refusal"]["name"] == "FloError"


def test_open_host_calls_leave_less_memory_for_a_step() -> None:
    bounds = Bounds(seconds=1, memory_mb=1)
    world = world_of(request(FakeBridge(), bounds))
    begin_step(world, bounds, held=1000)
    assert world.most_held == (1 << 20) - 1000


def test_the_limit_of_messages_grows_with_the_limit_of_host_calls() -> None:
    def most(calls: int) -> int:
        return world_of(request(FakeBridge(), Bounds(seconds=1, host_calls=calls))).most_messages

    assert most(1_000) - most(999) >= 1
    assert most(1_000) > 1_000


def test_bytes_do_not_depend_on_how_they_are_taken() -> None:
    one, other = SeededBytes(b"seed" * 8), SeededBytes(b"seed" * 8)
    pieces = b"".join(one.take(size) for size in (1, 0, 63, 64, 200))
    assert pieces == other.take(328)
    assert len(set(pieces)) > 100


def test_another_seed_gives_other_bytes_and_other_words() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(31) + b"\1")
    assert one.take(16) != other.take(16)
    assert one.words() != other.words()


def test_words_take_nothing() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(32))
    assert one.words() == one.words()
    assert one.take(8) == other.take(8)
