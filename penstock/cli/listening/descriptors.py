"""File descriptors: how many this process may have, and how they are shared out.

A connection takes one, and so does each call of a model that is under way. Where both together
may take all there are, the database cannot be opened and work that was accepted breaks off. So
half of what is left after a reserve goes to connections, and half to work: at most so many
connections are served, and at most so many logs are at work; others wait for their turn.

Work may take more than its share for a moment (scripts, downloads): then it waits, too, as
`core/exhaustion.py` says.
"""

import resource
from contextlib import suppress
from dataclasses import replace

from penstock.cli.listening.connection import ConnectionLimit
from penstock.core.limits import Limits

_WANTED = (65_536, 10_240)
"""The second is what macOS always grants; its own bound on the first is in no limit."""
_RESERVE = 64
"""For the database, its log, blobs, the listening socket, the event loop, standard streams."""
_SPARE_SHARE = 8
"""One in so many connections is for answering the others with 503."""
_EACH_AT_WORK = 2
"""What a log at work takes: a connection to its model, and a file."""


def room_of(limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Raise this process's limit as far as it may, and share it out.

    Returns the room for connections, and the limits with as many activations as there is room for.
    """
    return shared_out(_raised(), limits)


def shared_out(descriptors: int, limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Return the room for connections, and the limits with the activations that fit beside."""
    half = max(descriptors - _RESERVE, 4) // 2
    spare = max(half // _SPARE_SHARE, 1)
    served = min(limits.connections, max(half - spare, 1))
    activations = min(limits.activations, max(half // _EACH_AT_WORK, 1))
    highest = max(descriptors - _RESERVE // 2, 4)
    room = ConnectionLimit(served=served, spare=spare, highest=highest)
    return room, replace(limits, activations=activations)


def shortage(room: ConnectionLimit, limits: Limits, wanted: Limits) -> str:
    """Return what to tell the operator where fewer tasks are at work than the settings allow."""
    if limits.activations == wanted.activations:
        return ""
    enough = 2 * _EACH_AT_WORK * wanted.activations + _RESERVE
    return (
        f"This process may open too few files: it serves {room.served} connections and works on "
        f"{limits.activations} tasks at once. For {wanted.activations} tasks start it "
        f"with `ulimit -n {enough}` or more."
    )


def _raised() -> int:
    """Raise the soft limit towards the hard one, as each process may; return what holds."""
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
