"""Divides the file descriptors of this process between connections and work.

A connection takes one descriptor, and so does each running request to a model. If both together
take all of them, the database cannot be opened and accepted work fails. Therefore a reserve is set
aside, and the rest is divided: half for connections, half for tasks. The halves limit how many
connections are served and how many logs run at once; others wait for their turn.

Tasks may exceed their half for a moment (scripts, downloads). They wait then, too: see
`core/exhaustion.py`. Proof: tests/cli/listening/test_descriptors.py, tests/chaos/test_burst.py.
"""

import resource
from contextlib import suppress
from dataclasses import replace

from penstock.cli.listening.connection import ConnectionLimit
from penstock.core.limits import Limits

_WANTED = (65_536, 10_240)
"""Soft limits to try, in order. macOS refuses more than OPEN_MAX (10,240), which getrlimit does not
report."""
_RESERVE = 64
"""For the database, its log, blobs, the listening socket, the event loop, standard streams."""
_SPARE_SHARE = 8
"""One of this many connections is reserved to answer further clients with 503."""
_EACH_AT_WORK = 2
"""Descriptors of a running log: a connection to its model, and a file."""


def room_of(limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Raise this process's soft limit and divide it.

    Returns the limit of connections, and `limits` with `activations` reduced to what fits.
    """
    return shared_out(_raised(), limits)


def shared_out(descriptors: int, limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Divide a number of descriptors; see `room_of`."""
    half = max(descriptors - _RESERVE, 4) // 2
    spare = max(half // _SPARE_SHARE, 1)
    served = min(limits.connections, max(half - spare, 1))
    activations = min(limits.activations, max(half // _EACH_AT_WORK, 1))
    highest = max(descriptors - _RESERVE // 2, 4)
    room = ConnectionLimit(served=served, spare=spare, highest=highest)
    return room, replace(limits, activations=activations)


def shortage(room: ConnectionLimit, limits: Limits, wanted: Limits) -> str:
    """Return a warning if fewer tasks run at once than the settings allow; else an empty text."""
    if limits.activations == wanted.activations:
        return ""
    enough = 2 * _EACH_AT_WORK * wanted.activations + _RESERVE
    return (
        f"The limit of open files is low: this process serves {room.served} connections and runs "
        f"{limits.activations} tasks at once. For {wanted.activations} tasks start it "
        f"with `ulimit -n {enough}` or more."
    )


def _raised() -> int:
    """Raise the soft limit towards the hard limit; return the resulting soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED[0]
    for most in _WANTED:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft >= wanted:
            break
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft
