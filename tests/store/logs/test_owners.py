"""Names of processes: who is alive, who has ended, and who is unknown."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.store.logs.owners import is_alive, is_dead, this_process
from tests.kit.exhausted_process import no_files_left

SAY_WHO = """
import sys
from penstock.store.logs.owners import this_process
print(this_process("n"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that says who it is and waits."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", SAY_WHO], stdin=pipe, stdout=pipe, text=True
    ) as it:
        yield it
        it.kill()


def name_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_this_process_lives() -> None:
    owner = this_process("run_1")
    assert not is_dead(owner)
    assert is_alive(owner)
    assert owner.endswith("/run_1")
    assert owner.count("/") == 4


@pytest.mark.programs
@pytest.mark.slow(reason="starts an interpreter")
def test_a_killed_process_has_ended_before_cleanup(
    child: subprocess.Popen[str],
) -> None:
    owner = name_of(child)
    assert not is_dead(owner)
    child.kill()
    while not is_dead(owner):
        assert child.returncode is None, "nobody waited for it: it is a zombie"
    child.wait()
    assert is_dead(owner)
    assert not is_alive(owner)


@pytest.mark.programs
@pytest.mark.slow(reason="starts an interpreter")
def test_a_frozen_process_is_not_dead(child: subprocess.Popen[str]) -> None:
    owner = name_of(child)
    child.send_signal(signal.SIGSTOP)
    assert not is_dead(owner)


@pytest.mark.programs
def test_an_owner_is_not_dead_if_descriptors_are_exhausted(
    child: subprocess.Popen[str],
) -> None:
    """Otherwise a process without any would acquire logs that others work on."""
    name = name_of(child)
    with no_files_left():
        assert not is_dead(name)
        assert not is_dead(this_process("n"))


def test_a_number_that_another_process_has_now_counts_for_nothing() -> None:
    host, boot, pid, start, nonce = this_process("n").split("/")
    assert is_dead(f"{host}/{boot}/{pid}/{int(start) - 1}/{nonce}")
    assert is_dead(f"{host}/{boot}/4194305/{start}/{nonce}")


HOST, BOOT, PID, START, NONCE = this_process("n").split("/")
UNKNOWN = [
    "",
    "me",
    f"not-{HOST}/{BOOT}/4194305/1/n",
    f"{HOST}/another-boot/4194305/1/n",
    f"{HOST}/-/4194305/1/n",
    f"{HOST}/{BOOT}/4194305/-/n",
    f"{HOST}/{BOOT}/self/1/n",
    f"{HOST}/{BOOT}/../1/n",
    f"{HOST}/{BOOT}/4194305/1/n/more",
]


@pytest.mark.parametrize("owner", UNKNOWN)
def test_an_unknown_owner_is_neither_dead_nor_alive(owner: str) -> None:
    assert not is_dead(owner)
    assert not is_alive(owner)
