"""The replays that a server keeps."""

import asyncio

import pytest

from penstock.chat.recorded.replay_report import ReplayReport
from penstock.core.errors import NotFound, RateLimited
from penstock.core.ids import new_id
from penstock.core.profile import Profile
from penstock.server.replays import MOST, Replays

ANN, BOB = Profile.named("ann", "admin"), Profile.named("bob", "admin")


async def done(task_id: str = "task_1") -> ReplayReport:
    return ReplayReport(task_id=task_id, compared_events=0, total_events=0)


async def test_a_replay_is_found_by_its_profile_alone() -> None:
    replays = Replays(new_id)
    replay_id = replays.start(done(), ANN)
    report = await replays.report(replay_id, ANN, seconds=5)
    assert report is not None
    for profile, name in ((BOB, replay_id), (ANN, "replay_other")):
        with pytest.raises(NotFound):
            await replays.report(name, profile, seconds=0)


async def test_the_oldest_that_has_ended_makes_room() -> None:
    replays = Replays(new_id)
    hold = asyncio.Event()

    async def waiting() -> ReplayReport:
        await hold.wait()
        return await done()

    first = replays.start(done(), ANN)
    others = [replays.start(waiting(), ANN) for _ in range(MOST - 1)]
    assert await replays.report(others[0], ANN, seconds=0) is None
    others.append(replays.start(waiting(), ANN))
    with pytest.raises(NotFound):
        await replays.report(first, ANN, seconds=0)
    with pytest.raises(RateLimited, match="100 replays run already"):
        replays.start(waiting(), ANN)
    replays.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replays.report(others[-1], ANN, seconds=1)
