"""Guards of plugins: each agent session has its own, and they are asked last."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.call import Call
from penstock.core.foreign_code import CaughtError
from penstock.tools.access.session_guard import GuardedSession, PluginGuard

Guard = Callable[[Call], Any]
"""Returns None, or a text that says why the call is refused."""
Factory = Callable[[GuardedSession], Guard]


def guards_of(factories: Sequence[Factory], session: GuardedSession) -> Sequence[PluginGuard] | str:
    """Return the guards of one agent session; a text says why one could not be made."""
    guards: list[PluginGuard] = []
    for factory in factories:
        guard: Guard | None = None
        with CaughtError() as fault:
            guard = factory(session)
        if fault.error is not None:
            return f"a guard of a plugin could not be made: {fault}"
        if not callable(guard):
            return f"a guard of a plugin could not be made: {guard!r} cannot be called"
        guards.append(_closed_on_failure(guard))
    return guards


def _closed_on_failure(guard: Guard) -> PluginGuard:
    """Return a guard that refuses what it cannot judge."""

    def closed(call: Call) -> str | None:
        said: Any = None
        with CaughtError() as fault:
            said = guard(call)
        if fault.error is not None:
            return f"a guard of a plugin failed: {fault}"
        if said is None or isinstance(said, str):
            return said
        return f"a guard returns None or a text, found {type(said).__name__}"

    return closed
