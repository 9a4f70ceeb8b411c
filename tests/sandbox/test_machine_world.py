"""A script is heard within bounds, and not again while it is brought to where it was."""

from typing import Any

import pytest

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.sandbox.machine_world import MachineWorld


def world_of(**more: Any) -> MachineWorld:
    bounds = {"depth": 200, "most_messages": 3, "most_held": 1000}
    return MachineWorld(modules={}, answer=lambda *_: "", chance=bytes, **(bounds | more))


def test_what_was_asked_together_is_heard_in_order() -> None:
    world = world_of()
    world.receive("ask\n1\na\n{}\0ask\n2\nb\n{}\0drop\n1\n", [])
    assert [(said.kind, said.number) for said in world.outbox] == [
        ("ask", 1),
        ("ask", 2),
        ("drop", 1),
    ]


def test_a_line_may_hold_a_nul() -> None:
    world = world_of()
    world.receive("print\n0\ninfo\na\0b", [])
    assert [said.value for said in world.outbox] == ["a\0b"]


def test_nothing_is_heard_after_the_end() -> None:
    world = world_of()
    world.receive("done\n0\n1", [])
    world.receive("ask\n1\na\n{}", [])
    assert [said.kind for said in world.outbox] == ["done"]


def test_what_was_heard_is_not_heard_again() -> None:
    world = world_of(is_muted=True)
    world.receive("ask\n1\na\n{}", [])
    assert (world.outbox, world.messages) == ([], 0)


def test_a_flood_is_ended() -> None:
    world = world_of()
    with pytest.raises(ScriptError, match="floods its host"):
        for number in range(4):
            world.receive(f"ask\n{number}\na\n{{}}", [])


def test_open_host_calls_hold_no_more_than_the_memory_may() -> None:
    world = world_of()
    with pytest.raises(OutOfMemory, match="the open host calls"):
        world.receive("ask\n1\nfetch\n{}", [bytes(1000)])


@pytest.mark.parametrize("count", [-1, 65_537, 2**31])
def test_a_script_gets_so_much_by_chance_as_it_can_ask_for(count: int) -> None:
    world = world_of()
    assert world.draw(65_536) == bytes(65_536)
    with pytest.raises(ScriptError, match=f"asked for {count} random bytes"):
        world.draw(count)


def test_arguments_have_a_size_whatever_the_script_says_of_it() -> None:
    """What is capped in a script is capped by its host too: the size of a message, how many."""
    world = world_of(most_characters=500)
    world.receive(f'ask\n1\na\n{{"b":"{"x" * 400}"}}', [])
    with pytest.raises(ScriptError, match="more at once than it may"):
        world.receive(f'ask\n2\na\n{{"b":"{"x" * 800}"}}', [])
    assert len(world.outbox) == 1
