"""Spares: one is ready before it is needed, the next is begun, and one that died is replaced."""

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.sandbox.processes.process import Process
from penstock.sandbox.processes.warm_processes import WarmProcesses
from tests.kit.engines import engine

LIVES = "os.read(0, 1)"


def spares(folder: Path, program: str, begun: list[Process], **more: str) -> WarmProcesses:
    return WarmProcesses(lambda _: engine(program, folder, **more), begun.append)


async def test_one_is_begun_before_it_is_taken_and_another_behind_it(tmp_path: Path) -> None:
    begun: list[Process] = []
    found = spares(tmp_path, LIVES, begun)
    await found.warm(64)
    first = await found.take(64)
    second = await found.take(64)
    assert begun[:2] == [first, second]
    for process in (first, second):
        process.close()
    found.close()
    assert not any(process.is_alive for process in begun)


async def test_one_that_died_while_it_waited_is_replaced(tmp_path: Path) -> None:
    begun: list[Process] = []
    found = spares(tmp_path, LIVES, begun)
    await found.warm(64)
    begun[0].kill()
    taken = await found.take(64)
    assert taken is begun[1]
    taken.close()
    found.close()


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("import sys; sys.stderr.write('no such thing'); sys.exit(9)\n", "with 9: no such thing"),
        ("import os; os.write(1, b'\\1\\0\\0\\0\\2\\0\\0\\0no')\n", "began with 'no'"),
    ],
)
async def test_one_that_does_not_start_says_why(tmp_path: Path, begin: str, said: str) -> None:
    found = spares(tmp_path, LIVES, [], begin=begin)
    with pytest.raises(ConfigError, match=said):
        await found.take(64)
    found.close()
