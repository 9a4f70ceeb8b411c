"""QuickJS has no files, no time zone, and only the clock and the randomness of its world."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.guest import MachineWorld
from penstock.sandbox.messages import Delivery, Message
from penstock.sandbox.script import Bounds, Module
from penstock.sandbox.wasm.machine import Machine, boot
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.sandbox.wasm.wasi import start_engine
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of


@pytest.fixture(scope="module")
def sandbox(machine_code: Path) -> Iterator[QuickJs]:
    result = QuickJs(SystemClock(), machine_code)
    yield result
    asyncio.run(result.close())


async def test_the_only_time_zone_is_utc(sandbox: QuickJs) -> None:
    source = (
        "export const run = () => [new Date(2026, 0, 2).toISOString(), new Date(0).getHours()];"
    )
    result = await sandbox.run(script_of(source), {}, FakeBridge(), Bounds(seconds=5))
    assert result == ["2026-01-02T00:00:00.000Z", 0]


def test_machines_of_one_image_share_no_state(machine_code: Path) -> None:
    engine = start_engine(SystemClock(), machine_code)
    image = boot(engine)
    text = [messages_of(Machine(engine, image, 64 << 20, 200 << 10), 1000 * n) for n in range(1, 4)]
    assert [message.value for [message] in text] == [[1, 1000], [1, 2000], [1, 3000]]
    engine.close()


def messages_of(machine: Machine, now_ms: int) -> list[Message]:
    """Run a script that counts in a global and reads its clock."""
    source = "export const run = () => [globalThis.n = (globalThis.n ?? 0) + 1, Date.now()];"
    world = MachineWorld(
        modules={"m": Module(name="m", source=source, imports={})},
        answer=lambda *_: "",
        random_bytes=bytes,
        depth=9,
        max_messages=9,
        max_held=999,
        now_ms=now_ms,
    )
    beginning = {"entry": "m", "entrypoint": "run", "input": {}, "seed": [1, 2, 3, 4]}
    bounds = {"hostCalls": 1, "messageBytes": 99, "outputBytes": 99, "logLines": 0, "logBytes": 0}
    value = beginning | {"bounds": bounds, "now": now_ms}
    machine.enter(world, "m")
    machine.send(*Delivery(kind="run", number=0, value=value, at_ms=now_ms).to_wire())
    machine.close()
    return world.outbox
