"""The catalog of permissions over HTTP, and what it means for keys."""

from pathlib import Path

import httpx2
import pytest

from penstock.accounts.keys import Keys
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.manifest.bundle import load_bundle
from penstock.manifest.permissions import PermissionCatalog, unknown_permissions
from penstock.server.application import create_application
from penstock.store.database import open_database
from penstock.testing.clock import FakeClock
from tests.kit.project import ProjectFolder
from tests.kit.server import HERE

CATALOG = """
catalog_id: desk
version: "2"
groups:
  - group_id: mail
    name: Mail
    permissions:
      - {permission_id: mail.send, name: Send mail, description: To anybody.}
"""


def catalog_of(folder: Path) -> PermissionCatalog:
    (folder / "all.permissions.yaml").write_text(CATALOG)
    found = load_bundle(folder).permissions
    assert found
    return found


@pytest.mark.parametrize(("text", "catalog_id"), [(None, None), (CATALOG, "desk")])
async def test_the_catalog_is_read(
    project: ProjectFolder, text: str | None, catalog_id: str | None
) -> None:
    if text is not None:
        project.write("all.permissions.yaml", text)
    async with project.opened() as runtime:
        transport = httpx2.ASGITransport(app=create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            shown = (await client.get("/api/permissions")).json()
    assert shown["catalogId"] == catalog_id
    sent = {"permissionId": "mail.send", "name": "Send mail", "description": "To anybody."}
    groups = [{"groupId": "mail", "name": "Mail", "description": None, "permissions": [sent]}]
    assert shown["groups"] == (groups if text else [])


def test_without_a_catalog_every_permission_counts(tmp_path: Path) -> None:
    assert unknown_permissions(["fly"], None) == ()
    catalog = catalog_of(tmp_path)
    asked = ["fly", "mail.send", "admin", "vault.write", "project.read", "project.bash"]
    assert unknown_permissions(asked, catalog) == ("fly",)


async def test_a_key_gets_no_permission_that_the_catalog_does_not_have(tmp_path: Path) -> None:
    """With a catalog, `keys create --permission` with such an id: refused, with the nearest."""
    database = await open_database("sqlite://")
    keys = Keys(database, FakeClock(), catalog=catalog_of(tmp_path))
    with pytest.raises(InvalidRequest) as refused:
        await keys.create("ann", permissions=["chat", "mail.sent"])
    await database.close()
    (problem,) = refused.value.problems
    assert problem == {
        "field": "/permissions",
        "issue": "'mail.sent' is not in all.permissions.yaml. Did you mean 'mail.send'?",
    }


async def test_a_grant_that_left_the_catalog_is_kept_and_counts_for_nothing(tmp_path: Path) -> None:
    """A grant whose id left the catalog is kept, shown as stale, counts for nothing."""
    database = await open_database("sqlite://")
    clock = FakeClock(Moment(0))
    key = await Keys(database, clock).create("ann", permissions=["chat", "old"])
    keys = Keys(database, clock, catalog=catalog_of(tmp_path))
    (listed,) = await keys.list()
    profile = await keys.profile(key)
    await database.close()
    assert (listed.permissions, listed.stale) == (("chat", "old"), ("old",))
    assert profile.permissions == {"chat"}
