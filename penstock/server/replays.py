"""Replays that a server runs: each in a task of its own, so that a client may ask for it later.

They are kept in memory, the newest MOST of them; a server that stops cancels those that run.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from penstock.chat.recorded.replay_report import ReplayReport
from penstock.core.errors import NotFound, RateLimited
from penstock.core.ids import NewId
from penstock.core.profile import Profile

MOST = 100
"""Replays that are kept, with those that run."""


class Replays:
    """The replays of one server, by id."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._kept: dict[str, tuple[str, asyncio.Task[ReplayReport]]] = {}

    def start(self, work: Coroutine[Any, Any, ReplayReport], profile: Profile) -> str:
        """Start a replay for a profile, and return its id. Raises RateLimited if all others run."""
        if len(self._kept) >= MOST:
            ended = next((key for key, (_, task) in self._kept.items() if task.done()), None)
            if ended is None:
                work.close()
                raise RateLimited(f"{MOST} replays run already; wait until one has ended")
            del self._kept[ended]
        replay_id = self._new_id("replay")
        self._kept[replay_id] = (profile.profile_id, asyncio.create_task(work))
        return replay_id

    async def report(
        self, replay_id: str, profile: Profile, *, seconds: float
    ) -> ReplayReport | None:
        """Return the report of a replay, or None if it still runs after so many seconds.

        Raises NotFound, and what the replay raised.
        """
        owner, task = self._kept.get(replay_id, (None, None))
        if task is None or owner != profile.profile_id:
            raise NotFound(f"there is no replay {replay_id!r}; a server keeps {MOST}")
        await asyncio.wait([task], timeout=seconds)
        return task.result() if task.done() else None

    def cancel(self) -> None:
        """End the replays that run."""
        for _, task in self._kept.values():
            task.cancel()
