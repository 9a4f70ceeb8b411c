"""A guest: its first delivery, its limits, its randomness, and the checks on what it sends."""

import json
from typing import Any

import pytest

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.core.clock import SystemClock
from penstock.sandbox.entry_timer import EntryTimer
from penstock.sandbox.guest import (
    EntryRequest,
    MachineWorld,
    SeededBytes,
    begin_step,
    beginning,
    world_of,
)
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import BEGINS_MS, FakeBridge
from tests.kit.scripts import script_of


def request(bridge: FakeBridge, bounds: Bounds) -> EntryRequest:
    timer = EntryTimer(SystemClock(), bounds.seconds, bounds.cpu_ms)
    return EntryRequest(script=script_of(""), bridge=bridge, bounds=bounds, timer=timer)


def test_the_first_delivery_has_input_limits_and_time() -> None:
    first = beginning(request(FakeBridge(), Bounds(seconds=1, log_line_bytes=7)), {"n": 1})
    assert (first.kind, first.at_ms) == ("run", BEGINS_MS)
    assert first.value["input"] == {"n": 1}
    assert first.value["bounds"]["logLineBytes"] == 7
    assert len(first.value["seed"]) == 4


def test_a_synchronous_answer_is_a_value_or_a_refusal() -> None:
    bridge = FakeBridge({"known": lambda asked: asked})
    world = world_of(request(bridge, Bounds(seconds=1)))
    assert json.loads(world.answer("known", [1])) == {"value": [1]}
    assert json.loads(world.answer("unknown", 1))["refusal"]["name"] == "FloError"


def test_open_host_calls_leave_less_memory_for_a_step() -> None:
    bounds = Bounds(seconds=1, memory_mb=1)
    world = world_of(request(FakeBridge(), bounds))
    begin_step(world, bounds, held=1000)
    assert world.max_held == (1 << 20) - 1000


def test_the_limit_of_messages_grows_with_the_limit_of_host_calls() -> None:
    def most(calls: int) -> int:
        return world_of(request(FakeBridge(), Bounds(seconds=1, host_calls=calls))).max_messages

    assert most(1_000) - most(999) >= 1
    assert most(1_000) > 1_000


def test_random_bytes_do_not_depend_on_the_sizes_of_reads() -> None:
    one, other = SeededBytes(b"seed" * 8), SeededBytes(b"seed" * 8)
    pieces = b"".join(one.take(size) for size in (1, 0, 63, 64, 200))
    assert pieces == other.take(328)
    assert len(set(pieces)) > 100


def test_another_seed_yields_other_bytes_and_words() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(31) + b"\1")
    assert one.take(16) != other.take(16)
    assert one.words() != other.words()


def test_words_do_not_advance_the_sequence() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(32))
    assert one.words() == one.words()
    assert one.take(8) == other.take(8)


def bounded_world(**more: Any) -> MachineWorld:
    bounds = {"depth": 200, "max_messages": 3, "max_held": 1000}
    return MachineWorld(modules={}, answer=lambda *_: "", random_bytes=bytes, **(bounds | more))


def test_calls_of_one_batch_are_received_in_order() -> None:
    world = bounded_world()
    world.receive("ask\n1\na\n{}\0ask\n2\nb\n{}\0drop\n1\n", [])
    assert [(message.kind, message.number) for message in world.outbox] == [
        ("ask", 1),
        ("ask", 2),
        ("drop", 1),
    ]


def test_a_console_line_may_contain_nul() -> None:
    world = bounded_world()
    world.receive("print\n0\ninfo\na\0b", [])
    assert [message.value for message in world.outbox] == ["a\0b"]


def test_messages_after_the_end_are_dropped() -> None:
    world = bounded_world()
    world.receive("done\n0\n1", [])
    world.receive("ask\n1\na\n{}", [])
    assert [message.kind for message in world.outbox] == ["done"]


def test_a_muted_world_drops_messages() -> None:
    world = bounded_world(is_muted=True)
    world.receive("ask\n1\na\n{}", [])
    assert (world.outbox, world.messages) == ([], 0)


def test_too_many_messages_end_the_script() -> None:
    world = bounded_world()
    with pytest.raises(ScriptError, match="floods its host"):
        for number in range(4):
            world.receive(f"ask\n{number}\na\n{{}}", [])


def test_open_host_calls_cannot_hold_more_than_the_memory() -> None:
    world = bounded_world()
    with pytest.raises(OutOfMemory, match="the open host calls"):
        world.receive("ask\n1\nfetch\n{}", [bytes(1000)])


@pytest.mark.parametrize("count", [-1, 65_537, 2**31])
def test_random_bytes_are_bounded(count: int) -> None:
    world = bounded_world()
    assert world.draw(65_536) == bytes(65_536)
    with pytest.raises(ScriptError, match=f"asked for {count} random bytes"):
        world.draw(count)


def test_the_size_of_arguments_is_checked_by_the_host() -> None:
    """The host enforces the limits of the guest sources, too: sizes and numbers of messages."""
    world = bounded_world(max_characters=500)
    world.receive(f'ask\n1\na\n{{"b":"{"x" * 400}"}}', [])
    with pytest.raises(ScriptError, match="more at once than it may"):
        world.receive(f'ask\n2\na\n{{"b":"{"x" * 800}"}}', [])
    assert len(world.outbox) == 1
