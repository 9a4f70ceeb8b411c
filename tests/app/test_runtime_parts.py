"""The parts of a runtime that need a database."""

from penstock.app.runtime_parts import DatabaseParts
from penstock.core.ids import ArtifactId
from penstock.core.profile import LOCAL_PROFILE
from penstock.resources.cipher import Cipher
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.testing.clock import FakeClock


async def test_database_parts_have_keys_and_find_what_is_stored() -> None:
    database = await open_database("sqlite://")
    database_parts = DatabaseParts(
        database, open_blobs("memory:///"), FakeClock(), Cipher([bytes(32)])
    )
    assert not await database_parts.keys.exist()
    assert [each.why for each in await database_parts.look()] == [""] * 4
    assert await database_parts.lookup.find_artifact(ArtifactId("art_1"), LOCAL_PROFILE) is None
    await database.close()
