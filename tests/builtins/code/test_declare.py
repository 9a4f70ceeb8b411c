"""The tools of the project's folder ask for permissions, and are offered to every agent."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.builtins.code import reading, searching, writing
from penstock.core.ids import ProfileId
from penstock.core.profile import Profile
from tests.kit.folders import open_folder

TOOLS = (*reading.TOOLS, *writing.TOOLS, *searching.TOOLS)


@pytest.mark.parametrize(
    ("tool_id", "permission", "is_offered"),
    [
        ("read", "project.read", True),
        ("ls", "project.read", True),
        ("grep", "project.read", True),
        ("find", "project.read", True),
        ("glob", "project.read", False),
        ("write", "project.write", True),
        ("edit", "project.write", True),
    ],
)
def test_each_asks_for_its_permission(tool_id: str, permission: str, *, is_offered: bool) -> None:
    """§13.1: "the permissions `project.read`, `project.write` … still count"."""
    spec = next(each.spec for each in TOOLS if each.spec.tool_id == tool_id)
    assert spec.requires_permissions == {permission}
    assert (spec.is_offered, spec.stays_inside) == (is_offered, False)


async def test_a_new_key_has_none_of_them(tmp_path: Path) -> None:
    """§13.1: "the profile `local` has all; a new key has none of them"."""
    folder = await open_folder(tmp_path, *TOOLS)
    key = Profile(profile_id=ProfileId("key"), permissions=frozenset({"read", "chat"}))
    caller = replace(folder.bench.model, profile=key)
    for tool_id, permission in (("read", "project.read"), ("edit", "project.write")):
        found = await folder.bench.call(tool_id, {"path": "README.md"}, caller=caller)
        assert found.error is not None
        assert found.error.message == f'"{tool_id}" needs the permission {permission}'
