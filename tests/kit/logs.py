"""The events of a log as short texts."""

from penstock.app.runtime import Runtime
from penstock.core.events.events import CallSettled, Event
from penstock.core.ids import LogId


async def events(runtime: Runtime, log_id: str) -> list[Event]:
    """Return all events of a log."""
    return [each.event for each in await runtime.parts.storage.log.read(LogId(log_id))]


async def kinds(runtime: Runtime, log_id: str) -> list[str]:
    """Return the kinds of all events of a log."""
    return [type(each).__name__ for each in await events(runtime, log_id)]


async def settled(runtime: Runtime, log_id: str) -> list[CallSettled]:
    """Return the outcomes of all calls, in the order of the log."""
    return [each for each in await events(runtime, log_id) if isinstance(each, CallSettled)]


def code(outcome: CallSettled) -> str:
    """Return the code of a failure, `ok` for a success."""
    error = outcome.envelope.error
    return "ok" if error is None else error.code
