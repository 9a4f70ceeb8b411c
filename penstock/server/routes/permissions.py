"""The permissions that a project declares, for tools that create keys."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from penstock.core.profile import READ
from penstock.manifest.permissions import PermissionGroup
from penstock.server.context import allowed, context_of
from penstock.server.requests.problem import Json
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers

router = Router(prefix="/api/permissions", tags=["permissions"])


@router.get("", responses=answers("Permissions"), response_class=Json)
async def list_permissions(request: Request) -> Response:
    """Return the permission catalog; without one there are no groups, and any id is valid."""
    context, _ = context_of(request), allowed(request, READ)
    catalog = context.keys.catalog if context.keys else None
    if catalog is None:
        return Json({"catalogId": None, "version": None, "groups": []})
    groups = [_group(each) for each in catalog.groups]
    return Json({"catalogId": catalog.catalog_id, "version": catalog.version, "groups": groups})


def _group(group: PermissionGroup) -> dict[str, Any]:
    permissions = [
        {"permissionId": each.permission_id, "name": each.name, "description": each.description}
        for each in group.permissions
    ]
    return {
        "groupId": group.group_id,
        "name": group.name,
        "description": group.description,
        "permissions": permissions,
    }
