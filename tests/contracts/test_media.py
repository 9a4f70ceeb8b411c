"""The contract of media: stored with the record of a call, for one profile, until they expire."""

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import BlobId, MediaId
from penstock.core.stored.changes import MediaChange
from penstock.resources.workspace import Media
from penstock.store.logs.log import Log
from penstock.testing.clock import START, FakeClock
from tests.kit.log_entries import ANN, BOB, ONE, held

BYTES = BlobId("a" * 64)


def kept(media_id: str = "media_1", *, seconds: int = 60) -> MediaChange:
    return MediaChange(
        media_id=MediaId(media_id),
        profile_id=ANN,
        blob_id=BYTES,
        media_type="image/png",
        size=3,
        filename="x.png",
        expires_at=Moment(START + 1000 * seconds),
    )


def recorded(change: MediaChange) -> Entry:
    event = CallSettled(tool_id="media_push_vfs", envelope=Envelope.success({}))
    return Entry(event, ONE, CallPath(f"task_1/1/{change.media_id}#ab"), change)


async def test_an_id_is_found_only_by_its_owner(log: Log, media: Media) -> None:
    """§17: "A media id belongs to the profile that made it"."""
    lease = await held(log)
    await log.append(lease, [recorded(kept())])
    assert await media.find("media_1", ANN) == kept()
    assert await media.find("media_1", BOB) is None
    assert await media.find("media_2", ANN) is None


async def test_an_id_ends(log: Log, media: Media, clock: FakeClock) -> None:
    lease = await held(log)
    await log.append(lease, [recorded(kept(seconds=2)), recorded(kept("media_2"))])
    clock.advance(1.999)
    assert await media.find("media_1", ANN) is not None
    clock.advance(0.001)
    assert await media.find("media_1", ANN) is None
    assert await media.find("media_2", ANN) is not None


async def test_bytes_without_a_call_are_kept_for_their_profile(
    media: Media, clock: FakeClock
) -> None:
    await media.keep(kept(seconds=2))
    await media.keep(kept("media_2", seconds=4))
    assert await media.find_blob(BYTES, ANN) == kept("media_2", seconds=4)
    assert await media.find_blob(BYTES, BOB) is None
    assert await media.find_blob(BlobId("b" * 64), ANN) is None
    clock.advance(4)
    assert await media.find_blob(BYTES, ANN) is None
