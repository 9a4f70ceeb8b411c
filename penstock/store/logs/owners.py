"""Names of processes as owners of leases, from which others of the host see that one has ended.

A number of a process is not enough, because the system gives it to a later process: the name also
has the boot and the start of the process. Where the system tells neither, no process counts as
dead, and its lease ends by time. Proof: tests/store/logs/test_owners.py.
"""

import os
import platform
from pathlib import Path

_UNKNOWN = "-"
_PARTS = 5
_START = 19
"""The position of the start time in /proc/PID/stat, counted from the state."""


def this_process(nonce: str) -> str:
    """Return the owner name of this process, `host/boot/pid/start/nonce`.

    Other processes of the host can find out from it whether this process is alive. The nonce
    distinguishes several owners in one process.
    """
    pid = os.getpid()
    try:
        start = _start_of(pid) or _UNKNOWN
    except OSError:
        start = _UNKNOWN
    return "/".join((_host(), _boot(), str(pid), start, nonce))


def is_dead(owner: str) -> bool:
    """Whether the owner is a process of this host that has ended; False if unknown."""
    return _runs(owner) is False


def is_alive(owner: str) -> bool:
    """Whether the owner is a process of this host that runs; False if unknown."""
    return _runs(owner) is True


def _runs(owner: str) -> bool | None:
    """Return whether the owner runs, or None if this host cannot know."""
    parts = owner.split("/")
    if len(parts) != _PARTS:
        return None
    host, boot, pid, start, _ = parts
    if _UNKNOWN in {boot, start} or not pid.isdecimal() or (host, boot) != (_host(), _boot()):
        return None
    try:
        # the number alone is not enough: the system gives it to a later process
        return _start_of(int(pid)) == start
    except OSError:  # such as a lack of descriptors, which tells nothing about that process
        return None


def _host() -> str:
    return platform.node().replace("/", _UNKNOWN) or _UNKNOWN


def _boot() -> str:
    """Return the boot id and the namespace of process ids: a container sees its own only."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return _UNKNOWN
    return f"{boot}.{space.strip('pid:[]')}"


def _start_of(pid: int) -> str | None:
    """Return the start time of a process in ticks since the boot; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # after the last bracket: the name of the program may contain spaces and brackets
    fields = stat.rpartition(")")[2].split()
    # a zombie runs no code, though its parent has not waited for it yet
    return None if fields[0] in {"Z", "X"} else fields[_START]
