"""`*.permissions.yaml`: the catalog of a project's permissions, in groups."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from penstock.manifest.fields import Field, Node, quoted, read_fields
from penstock.manifest.kinds import ListOf, NonEmptyText, RecordKind, Text, from_fields

BUILTIN = ("read", "chat", "approve", "manage", "admin")
"""Permissions of every project; a catalog must not define them."""
RUNTIME = ("vault.write", "project.read", "project.write", "project.bash")
"""Further permissions that the runtime checks; a catalog need not list them."""


class Permission(Struct, frozen=True, kw_only=True):
    """One permission that tools and skills may require."""

    permission_id: str
    name: str
    description: str | None = None


class PermissionGroup(Struct, frozen=True, kw_only=True):
    """Permissions that are shown together."""

    group_id: str
    name: str
    description: str | None = None
    permissions: tuple[Permission, ...] = ()


class PermissionCatalog(Struct, frozen=True, kw_only=True):
    """All permissions of a project; no others can be required or granted."""

    catalog_id: str | None = None
    version: str | None = None
    groups: tuple[PermissionGroup, ...] = ()
    file: str

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of all groups."""
        return frozenset(each.permission_id for group in self.groups for each in group.permissions)


def unknown_permissions(
    permissions: Iterable[str], catalog: PermissionCatalog | None
) -> tuple[str, ...]:
    """Return the permissions that the catalog does not list; they have no effect.

    Without a catalog every one counts, and those of the runtime itself always do.
    """
    if catalog is None:
        return ()
    known = catalog.ids.union(BUILTIN, RUNTIME)
    return tuple(each for each in permissions if each not in known)


def read_permissions(node: Node) -> PermissionCatalog:
    """Return the catalog in a mapping; report its errors."""
    values = read_fields(node, FIELDS)
    _refuse_doubles("group", _ids(node, "groups", "group_id"))
    permissions = _permission_ids(node)
    _refuse_doubles("permission", permissions)
    for permission in permissions:
        if permission.value in BUILTIN:
            message = f"{quoted(permission.value)} is a built-in permission; choose another id"
            permission.refuse("builtin-collision", message)
    return PermissionCatalog(**values, file=node.document.file)


def written_ids(node: Node) -> list[str]:
    """Return the ids in a catalog, even if it has errors."""
    return [each.value for each in _permission_ids(node)]


def _permission_ids(node: Node) -> list[Node]:
    groups = (node.at("groups", number) for number in range(_length(node.at("groups"))))
    return [each for group in groups for each in _ids(group, "permissions", "permission_id")]


def _ids(node: Node, listed: str, key: str) -> list[Node]:
    """Return the ids in a list of mappings; skip items without one."""
    every = [node.at(listed, number, key) for number in range(_length(node.at(listed)))]
    return [each for each in every if isinstance(each.value, str)]


def _length(node: Node) -> int:
    return len(node.value) if isinstance(node.value, list) else 0


def _refuse_doubles(noun: str, ids: list[Node]) -> None:
    counts = Counter(node.value for node in ids)
    first: dict[str, Node] = {}
    for node in ids:
        before = first.setdefault(node.value, node)
        if counts[node.value] > 1 and before is not node:
            line = before.place.line
            message = f"{noun} {quoted(node.value)} is defined twice; first at line {line}"
            node.refuse(f"duplicate-{noun}", message)


def _named(key: str, noun: str) -> Iterator[Field]:
    yield Field(
        key=key,
        kind=NonEmptyText(expected=f"a {noun} id"),
        required=True,
        meaning=f"The id of the {noun}.",
    )
    yield Field(
        key="name",
        kind=NonEmptyText(expected="a name"),
        required=True,
        meaning="The name that people see.",
    )
    yield Field(key="description", kind=Text(most=4096), meaning="The purpose.")


_SHORT = Text(expected="a string of at most 64 characters", most=64)
PERMISSION_FIELDS = tuple(_named("permission_id", "permission"))
GROUP_FIELDS = (
    *_named("group_id", "group"),
    Field(
        key="permissions",
        kind=ListOf(
            item=RecordKind(fields=PERMISSION_FIELDS, build=from_fields(Permission)),
            expected="a list of permissions",
            most=500,
        ),
        required=True,
        default=(),
        meaning="The permissions of the group.",
    ),
)
FIELDS = (
    Field(key="catalog_id", kind=_SHORT, meaning="Shown in lists."),
    Field(key="version", kind=_SHORT, meaning="Shown in lists."),
    Field(
        key="groups",
        kind=ListOf(
            item=RecordKind(fields=GROUP_FIELDS, build=from_fields(PermissionGroup)),
            expected="a list of 1 to 100 groups",
            least=1,
            most=100,
        ),
        required=True,
        default=(),
        meaning="The groups that people see.",
    ),
)
