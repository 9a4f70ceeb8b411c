"""Media files in memory."""

from penstock.core.clock import Clock
from penstock.core.ids import MediaId, ProfileId
from penstock.core.state.changes import MediaChange
from penstock.testing.changes import MemoryChanges


class MemoryMedia:
    """Media that were stored with the calls of a MemoryLog."""

    def __init__(self, changes: MemoryChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return the media file of a profile; None if it is unknown or expired."""
        found = self._changes.media.get(MediaId(media_id))
        if found is None or found.profile_id != profile_id:
            return None
        return found if found.expires_at > self._clock.now() else None
