"""The binding: errors of a guest become exceptions here, and the process continues."""

import faulthandler
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from wasmtime import wat2wasm

from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.sandbox.wasm.binding import PAGE, Engine, Import, Instance
from penstock.sandbox.wasm.wasi import start_engine

GUEST = """
(module
  (import "host" "add" (func $add (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global (export "__stack_pointer") (mut i32) (i32.const 9))
  (func (export "sum") (param i32 i32) (result i32) (call $add (local.get 0) (local.get 1)))
  (func (export "spin") (loop $again (br $again)))
  (func (export "fall") (unreachable))
  (func (export "refused") (drop (call $add (i32.const 13) (i32.const 0))) (loop $on (br $on)))
  (func $deep (export "deep") (call $deep))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))
"""


def add(owner: Any, passed: Any) -> int:
    owner.append(tuple(passed))
    if passed[0] == 13:
        raise KeyError("thirteen")
    return int(passed[0] + passed[1])


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine for a module that is not one of our blobs."""
    imports = [Import(module="host", name="add", parameters="ii", answers=True, call=add)]
    result = Engine(bytes(wat2wasm(GUEST)), imports, SystemClock())
    yield result
    result.close()


@pytest.fixture
def guest(engine: Engine) -> Iterator[Instance]:
    result = Instance(engine, [], 4 * PAGE)
    yield result
    result.close()


def test_a_guest_calls_its_host_with_its_owner(guest: Instance) -> None:
    assert guest.call("sum", 2, 3) == 5
    assert guest.quick("sum", 4, 5) == 9
    assert guest.owner == [(2, 3), (4, 5)]


def test_an_exception_of_the_host_reaches_the_caller(guest: Instance) -> None:
    with pytest.raises(KeyError, match="thirteen"):
        guest.call("sum", 13, 1)
    assert guest.call("sum", 1, 1) == 2


def test_a_guest_does_not_continue_after_its_host_raised(guest: Instance) -> None:
    with pytest.raises(KeyError, match="thirteen"):
        guest.call("refused")


@pytest.mark.parametrize(
    ("function", "message"), [("fall", "unreachable"), ("deep", "call stack exhausted")]
)
def test_a_trap_is_an_error(engine: Engine, function: str, message: str) -> None:
    guest = Instance(engine, [], PAGE)
    with pytest.raises(RuntimeError, match=message):
        guest.call(function)
    guest.close()


def test_a_trap_is_an_error_with_faulthandler_on(engine: Engine) -> None:
    """With traps by signal the process would end here: faulthandler handles their signals."""
    faulthandler.enable()
    guest = Instance(engine, [], PAGE)
    with pytest.raises(RuntimeError, match="unreachable"):
        guest.call("fall")
    assert faulthandler.is_enabled()
    guest.close()


def test_an_alarm_stops_a_loop_with_its_reason(engine: Engine) -> None:
    guest = Instance(engine, [], PAGE)
    answers = iter([None, None, "enough"])
    guest.alarm = lambda: next(answers)
    engine.ticker.begin(guest)
    with pytest.raises(TimeoutError, match="enough"):
        guest.call("spin")
    engine.ticker.end(guest)
    guest.close()


def test_an_exception_of_the_alarm_stops_the_guest_and_reaches_the_caller(engine: Engine) -> None:
    guest = Instance(engine, [], PAGE)
    guest.alarm = lambda: str(1 // 0)
    engine.ticker.begin(guest)
    with pytest.raises(ZeroDivisionError):
        guest.call("spin")
    engine.ticker.end(guest)
    guest.close()


def test_memory_has_a_limit_and_an_end(guest: Instance) -> None:
    assert guest.call("grow", 3) == 1
    assert guest.call("grow", 1) == 0xFFFF_FFFF
    guest.write(4 * PAGE - 2, b"ab")
    assert guest.read(4 * PAGE - 2, 2) == b"ab"
    for address in (4 * PAGE - 1, 0xFFFF_FFFF):
        with pytest.raises(RuntimeError, match="outside its memory"):
            guest.read(address, 2)
        with pytest.raises(RuntimeError, match="outside its memory"):
            guest.write(address, b"ab")


def test_texts_words_and_the_stack_can_be_read(guest: Instance) -> None:
    guest.write(8, b"text\0more")
    guest.write(100, (513).to_bytes(4, "little"))
    assert (guest.read_text(8), guest.read_word(100), guest.stack_pointer) == ("text", 513, 9)
    guest.stack_pointer = 77
    assert guest.stack_pointer == 77


def test_a_blob_without_the_expected_exports_is_refused(guest: Instance) -> None:
    with pytest.raises(ConfigError, match="the wasm blob has no 'qjs_init'"):
        guest.call("qjs_init")


def test_instances_of_many_threads_do_not_mix(engine: Engine) -> None:
    def work(number: int) -> bool:
        guest = Instance(engine, [], PAGE)
        result = [guest.call("sum", number, each) for each in range(200)]
        guest.close()
        return result == [number + each for each in range(200)]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(100, 132)))


@pytest.mark.programs
@pytest.mark.slow("starts a process, which forks")
def test_a_forked_child_keeps_its_deadlines(machine_code: Path) -> None:
    program = f"""
import asyncio, os
from pathlib import Path
from penstock.core.call_errors import ToolTimeout
from penstock.core.clock import SystemClock
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import FakeBridge
from tests.kit.scripts import script_of
sandbox = QuickJs(SystemClock(), Path({str(machine_code)!r}))
started = script_of("let n = 0; while (n < 1e6) n++; export const run = () => n;")
asyncio.run(sandbox.run(started, {{}}, FakeBridge(), Bounds(seconds=9)))
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    asyncio.run(sandbox.run(script_of("for (;;);"), {{}}, FakeBridge(), Bounds(seconds=0.1)))
except ToolTimeout:
    os._exit(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        timeout=20,
        check=False,
    )
    assert done.returncode == 7


def test_the_engine_of_quickjs_is_the_pinned_one(machine_code: Path) -> None:
    engine = start_engine(SystemClock(), machine_code)
    guest = Instance(engine, None, 64 << 20)
    assert guest.size > PAGE
    guest.close()
    engine.close()
