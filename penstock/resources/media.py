"""Bytes that a profile keeps for a while, and uses by an id."""

from typing import Protocol

from sqlalchemy import select

from penstock.core.clock import Clock
from penstock.core.ids import MediaId, ProfileId
from penstock.core.state import MediaChange
from penstock.store.database import Database
from penstock.store.tables import media


class Media(Protocol):
    """What profiles keep under ids. Who keeps something hands in a MediaChange with its call.

    Contract: an id is found by the profile that made it alone, and until it expires.
    """

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return what stands under an id."""
        ...


class SqlMedia:
    """Media in the table of that name."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, media_id: str, profile_id: ProfileId) -> MediaChange | None:
        """Return what stands under an id."""
        wanted = select(media).where(
            media.c.media_id == media_id,
            media.c.profile_id == profile_id,
            media.c.expires_at > self._clock.now(),
        )
        row = await self._database.read(lambda each: each.execute(wanted).first())
        if row is None:
            return None
        return MediaChange(
            media_id=MediaId(row.media_id),
            profile_id=profile_id,
            blob_id=row.blob_id,
            media_type=row.media_type,
            size=row.size,
            filename=row.filename,
            expires_at=row.expires_at,
        )
