"""Guards of plugins: one per agent session, called after all other checks."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.call import Call
from penstock.core.foreign_code import CaughtError
from penstock.tools.access.session_guard import GuardedSession, PluginGuard

Guard = Callable[[Call], Any]
"""Returns None, or the reason for refusing the call."""
Factory = Callable[[GuardedSession], Guard]


def guards_of(factories: Sequence[Factory], session: GuardedSession) -> Sequence[PluginGuard] | str:
    """Return the guards of one agent session; a text is the reason why one could not be created."""
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
    """Return a guard that refuses a call if the plugin's guard fails."""

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
