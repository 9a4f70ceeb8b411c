"""Tasks that begin with their message: where nothing stands before it, one write does for both."""

from collections.abc import Callable, Sequence

from penstock.chat.message import NewMessage
from penstock.core.events.events import Entry, MessageReceived, Record, TaskStarted
from penstock.core.ids import LogId
from penstock.core.profile import Profile
from penstock.engine.activation import Activations
from penstock.engine.launcher import Launcher

Start = Callable[[LogId, str, MessageReceived, Profile], TaskStarted | None]
"""How a task of an agent starts; None when that takes a longer look, as at a missing model."""


class TaskStarter:
    """Begins tasks at once, where a conversation is new, or at hand with nothing left to do."""

    def __init__(self, activations: Activations, launcher: Launcher, start: Start) -> None:
        self._activations = activations
        self.launcher = launcher
        self._start = start

    def may(self, message: NewMessage, profile: Profile) -> bool:
        """Whether a message of this profile has nothing to wait for, as far as is known here."""
        if message.session_id is None:
            return True
        state = self._activations.find(LogId(message.session_id))
        if state is None or state.opened is None or not state.is_idle:
            return False
        opened = state.opened
        return opened.agent == message.agent and profile.owns(opened.profile_id, message.session_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """See to it that a log is at hand. Raises StoreCorrupt for one that does not read back."""
        await self._activations.ensure_readable(log_id)

    async def begin(
        self, log_id: LogId, agent: str, entries: Sequence[Entry], profile: Profile
    ) -> Sequence[Record] | None:
        """Write a message, the last of the entries, and the start of its task; then go on with it.

        None, with nothing written, when it has to wait after all. Raises what `Log.send` raises.
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
