"""Starts a task together with its message, in one write, where nothing precedes the message.

For a new conversation, or one that is cached and idle, `Log.begin` appends the message and
TaskStarted and acquires the lease: one commit instead of three, each of which the reader would wait
for (docs/decisions/006). What the cache believes may be wrong, because another process has written
to the log. So the expected head is part of the statement: if it differs, or the log is held,
nothing is written and the caller takes the ordinary way. Shown by tests/chat/test_starter.py.
"""

from collections.abc import Callable, Sequence

from penstock.chat.message import NewMessage
from penstock.core.events.events import Entry, MessageReceived, Record, TaskStarted
from penstock.core.ids import LogId
from penstock.core.profile import Profile
from penstock.engine.activation import Activations
from penstock.engine.launcher import Launcher

Start = Callable[[LogId, str, MessageReceived, Profile], TaskStarted | None]
"""Return the start event of a task; None if that needs more checks, as for a missing model."""


class TaskStarter:
    """Starts tasks of conversations that are new, or cached and idle."""

    def __init__(self, activations: Activations, launcher: Launcher, start: Start) -> None:
        self._activations = activations
        self.launcher = launcher
        self._start = start

    def may(self, message: NewMessage, profile: Profile) -> bool:
        """Return whether nothing precedes a message of this profile, as far as the cache knows."""
        if message.session_id is None:
            return True
        state = self._activations.find(LogId(message.session_id))
        if state is None or state.opened is None or not state.is_idle:
            return False
        opened = state.opened
        return opened.agent == message.agent and profile.owns(opened.profile_id, message.session_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache. Raises StoreCorrupt if it cannot be read."""
        await self._activations.ensure_readable(log_id)

    async def begin(
        self, log_id: LogId, agent: str, entries: Sequence[Entry], profile: Profile
    ) -> Sequence[Record] | None:
        """Write a message (the last entry) with the start of its task, and wake the launcher.

        Returns None, with nothing written, if the message has to wait. Raises what `Log.send`
        raises.
        """
        received, task_id = entries[-1].event, entries[-1].task_id
        assert isinstance(received, MessageReceived)  # noqa: S101
        started = self._start(log_id, agent, received, profile)
        if started is None:
            return None
        state = self._activations.find(log_id)
        head = 0 if state is None else state.seq
        records = await self._activations.begin(
            log_id, [*entries, Entry(started, task_id)], head=head
        )
        if records is not None:
            self.launcher.wake(log_id)
        return records
