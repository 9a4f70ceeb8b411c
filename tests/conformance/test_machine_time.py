"""The time in which a process waits for a core is not counted as its own."""

import os
import subprocess
import sys
import time

import pytest

from penstock.core.clock import SystemClock
from tests.kit.machine_time import SCHEDULED, queued_seconds

pytestmark = pytest.mark.programs
SPIN = "print(flush=True)\nwhile True: pass"


def spin(seconds: float) -> None:
    """Compute for so many seconds of this thread's own time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_time_of_a_rival_on_the_core_is_not_the_time_of_this_process() -> None:
    assert SCHEDULED.exists(), "this test needs Linux"
    clock, cores = SystemClock(), os.sched_getaffinity(0)
    core = {min(cores)}
    rival = [sys.executable, "-c", SPIN]
    with subprocess.Popen(rival, stdout=subprocess.PIPE) as process:
        try:
            os.sched_setaffinity(process.pid, core)
            os.sched_setaffinity(0, core)
            assert process.stdout is not None
            process.stdout.readline()
            before, started = queued_seconds(), clock.monotonic()
            spin(0.05)
            queued, took = queued_seconds() - before, clock.monotonic() - started
        finally:
            os.sched_setaffinity(0, cores)
            process.kill()
    assert 0 < queued < took
    assert took - queued == pytest.approx(0.05, abs=0.03)
