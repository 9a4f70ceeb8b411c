"""How many connections and how much work the file descriptors of a process allow."""

import resource
import subprocess
import sys

import pytest

from penstock.cli.listening.connection import ConnectionLimit
from penstock.cli.listening.descriptors import shared_out, shortage
from penstock.core.limits import Limits

SHARES = [
    (256, ConnectionLimit(served=84, spare=12, highest=224), 48),
    (1024, ConnectionLimit(served=420, spare=60, highest=992), 240),
    (65_536, ConnectionLimit(served=10_000, spare=4092, highest=65_504), 2000),
    (16, ConnectionLimit(served=1, spare=1, highest=4), 1),
]


@pytest.mark.parametrize(("descriptors", "room", "activations"), SHARES)
def test_half_of_the_remaining_descriptors_is_for_connections(
    descriptors: int, room: ConnectionLimit, activations: int
) -> None:
    found, limits = shared_out(descriptors, Limits())
    assert (found, limits.activations) == (room, activations)


def test_the_limits_of_the_settings_are_never_raised() -> None:
    room, limits = shared_out(65_536, Limits(connections=7, activations=3))
    assert (room.served, limits.activations) == (7, 3)


def test_a_low_limit_of_open_files_is_reported_to_the_operator() -> None:
    wanted = Limits()
    assert shortage(*shared_out(8064, wanted), wanted) == ""
    assert shortage(*shared_out(256, wanted), wanted) == (
        "The limit of open files is low: this process serves 84 connections and runs 48 tasks at "
        "once. For 2000 tasks start it with `ulimit -n 8064` or more."
    )


PROGRAM = """
import resource
from penstock.cli.listening.descriptors import room_of
from penstock.core.limits import Limits
for hard in (256, 64):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    room, limits = room_of(Limits())
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], room.served)
"""


@pytest.mark.slow("it starts Python, because the limit belongs to the process")
def test_the_limit_is_raised_as_far_as_the_process_may() -> None:
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert highest >= 256
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == ["256 84", "64 1"]
