"""Who holds a lease: a process, named so that others on its machine can tell whether it lives."""

import os
import platform
from pathlib import Path

_PARTS = 5
_UNKNOWN = "-"
_START = 19
"""Where the start time stands in /proc/PID/stat, counted from the state."""


def this_process(nonce: str) -> str:
    """Return `host/boot/pid/start/nonce`; the nonce tells apart several owners in one process."""
    pid = os.getpid()
    try:
        start = _start_of(pid) or _UNKNOWN
    except OSError:
        start = _UNKNOWN
    return "/".join((_host(), _boot(), str(pid), start, nonce))


def is_dead(owner: str) -> bool:
    """Whether the owner is a process of this machine that runs no more; False if unknown."""
    parts = owner.split("/")
    if len(parts) != _PARTS:
        return False
    host, boot, pid, start, _ = parts
    if _UNKNOWN in {boot, start} or not pid.isdecimal() or (host, boot) != (_host(), _boot()):
        return False
    try:
        return _start_of(int(pid)) != start
    except OSError:  # such as a lack of descriptors: it says nothing of that process
        return False


def _host() -> str:
    return platform.node().replace("/", _UNKNOWN) or _UNKNOWN


def _boot() -> str:
    """Return the boot, and the space of process ids: a container sees its own alone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return _UNKNOWN
    return f"{boot}.{space.strip('pid:[]')}"


def _start_of(pid: int) -> str | None:
    """Return when the process began, in ticks since the boot; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[_START]
