"""The catalog of permissions."""

from pathlib import Path

import pytest

from penstock.manifest.permissions import Permission
from tests.kit.manifests import findings, load, skill, tool

CATALOG = """
catalog_id: main
version: "2"
groups:
  - group_id: mail
    name: Mail
    permissions:
      - permission_id: mail.send
        name: Send mail
        description: To anybody.
      - {permission_id: mail.read, name: Read mail}
"""


def test_a_catalog_has_groups_of_permissions(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"p.permissions.yaml": CATALOG})
    catalog = bundle.permissions
    assert catalog is not None
    assert not bundle.diagnostics
    assert (catalog.catalog_id, catalog.version) == ("main", "2")
    assert catalog.ids == {"mail.send", "mail.read"}
    assert catalog.groups[0].permissions[0] == Permission(
        permission_id="mail.send", name="Send mail", description="To anybody."
    )


def test_a_permission_outside_the_catalog_cannot_be_required(tmp_path: Path) -> None:
    """With a catalog, a `requires_permissions` id that is not in it: `unknown-permission`."""
    files = {
        "p.permissions.yaml": CATALOG,
        "a.tool.yaml": tool("requires_permissions: [mail.sent, mail.read, admin]"),
        "s.skill.yaml": skill("requires_permissions: [fly]"),
    }
    assert findings(tmp_path, files) == [
        (
            'a.tool.yaml:5:24: error unknown-permission: "mail.sent" in "requires_permissions" '
            'is not a permission of the catalog; did you mean "mail.send"?'
        ),
        (
            's.skill.yaml:5:24: error unknown-permission: "fly" in "requires_permissions" '
            "is not a permission of the catalog"
        ),
    ]


def test_without_a_catalog_every_id_is_allowed(tmp_path: Path) -> None:
    assert findings(tmp_path, {"a.tool.yaml": tool("requires_permissions: [fly]")}) == []


def test_neither_of_two_catalogs_is_used(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a.permissions.yaml": CATALOG, "b.permissions.yaml": CATALOG})
    message = "a project has at most one permissions manifest; of these none is used"
    names = '"a.permissions.yaml", "b.permissions.yaml"'
    assert bundle.permissions is None
    assert [str(each) for each in bundle.diagnostics] == [
        f"{file}.permissions.yaml:2:1: error second-catalog: {message}: {names}" for file in "ab"
    ]


def group(more: str) -> str:
    return f"groups: [{{group_id: g, name: G, permissions: [{more}]}}]\n"


WRONG = [
    (
        "groups: []",
        '1:9: error bad-value: "groups" must be a list of 1 to 100 groups, found array []',
    ),
    (
        "groups: 5",
        '1:9: error wrong-type: "groups" must be a list of 1 to 100 groups, found number 5',
    ),
    ("version: '1'", '1:1: error missing-key: a permissions manifest must have "groups"'),
    (
        "groups: [{group_id: g, name: G, permissions: 7}]",
        (
            '1:46: error wrong-type: "groups[0].permissions" must be a list of permissions, '
            "found number 7"
        ),
    ),
    (
        group("{permission_id: ' a', name: A}"),
        (
            '1:63: error bad-value: "groups[0].permissions[0].permission_id" must be a '
            "permission id, "
            'found string " a"'
        ),
    ),
    (
        group("{permission_id: a, name: ''}"),
        '1:72: error bad-value: "groups[0].permissions[0].name" must be a name, found string ""',
    ),
    (
        group("{permission_id: admin, name: A}"),
        '1:63: error builtin-collision: "admin" is a built-in permission; choose another id',
    ),
    (
        group("{permission_id: a, name: A}, {permission_id: a, name: A}"),
        '1:92: error duplicate-permission: permission "a" is defined twice; first at line 1',
    ),
    (
        (
            "groups:\n- {group_id: g, name: G, permissions: []}\n"
            "- {group_id: g, name: G, permissions: []}"
        ),
        '3:14: error duplicate-group: group "g" is defined twice; first at line 2',
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_invalid_catalog_is_reported_at_its_position(
    tmp_path: Path, text: str, message: str
) -> None:
    """Ids and names empty or with outer spaces: `bad-value`."""
    assert findings(tmp_path, {"p.permissions.yaml": text}) == [f"p.permissions.yaml:{message}"]


@pytest.mark.parametrize("more", ["version: 5\n", "groups2: 1\n"])
def test_ids_missing_in_a_broken_catalog_are_reported_with_its_errors(
    tmp_path: Path, more: str
) -> None:
    """All problems of a bundle are found in one pass."""
    catalog = more + group("{permission_id: known, name: ''}")
    needs = tool("requires_permissions: [known, unknown]")
    reported = findings(tmp_path, {"p.permissions.yaml": catalog, "a.tool.yaml": needs})
    assert [each.split(": ")[1] for each in reported if each.startswith("a.tool")] == [
        "error unknown-permission"
    ]
    unread = {"p.permissions.yaml": "groups: [", "a.tool.yaml": needs}
    assert not [each for each in findings(tmp_path, unread) if "unknown-permission" in each]
