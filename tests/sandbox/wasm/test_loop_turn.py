"""A long step gives the loop away before the next one has it."""

import asyncio

from penstock.sandbox.wasm.loop_turn import LoopTurn


async def test_who_comes_after_a_long_step_lets_the_others_go_first() -> None:
    turn, seen = LoopTurn(), list[str]()

    async def script(name: str) -> None:
        await turn.come()
        seen.append(name)
        turn.hold()

    loop = asyncio.get_running_loop()
    scripts = [asyncio.create_task(script(name)) for name in ("first", "second", "third")]
    loop.call_soon(lambda: loop.call_soon(lambda: seen.append("other")))
    await asyncio.gather(*scripts)
    assert seen[:2] == ["first", "other"]
    assert sorted(seen) == ["first", "other", "second", "third"]


async def test_nobody_waits_where_nothing_was_long() -> None:
    turn, seen = LoopTurn(), list[str]()

    async def script() -> None:
        await turn.come()
        seen.append("here")

    task = asyncio.create_task(script())
    asyncio.get_running_loop().call_soon(lambda: seen.append("later"))
    await task
    assert seen[0] == "here"


def test_a_loop_that_ended_holds_up_no_other() -> None:
    turn = LoopTurn()

    async def hold() -> None:
        turn.hold()

    async def come() -> str:
        await turn.come()
        return "come"

    asyncio.run(hold())
    assert asyncio.run(asyncio.wait_for(come(), 1)) == "come"
