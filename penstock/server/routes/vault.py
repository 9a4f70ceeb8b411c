"""Secrets over HTTP: clients can write and list them, and never read their values."""

import logging
from enum import StrEnum
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from penstock.core.clock import to_iso
from penstock.core.errors import NotFound
from penstock.core.ids import ProfileId
from penstock.core.profile import CHAT, READ
from penstock.core.scopes import Scope, ScopeKind
from penstock.resources.vault import warning_of
from penstock.server.context import allowed, context_of, owned
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, ListQuery, page_of, read_json, sorting
from penstock.server.problem import Json
from penstock.server.routing import Router

log = logging.getLogger(__name__)
router = Router(prefix="/api/vault", tags=["vault"])

SECRET = Form({"value": {"type": "string", "minLength": 1, "writeOnly": True}}, required=("value",))
VAULT_WRITE = "vault.write"
MINE = "me"
_DONE = answers(None, 204)


class VaultScope(StrEnum):
    """The owners of secrets."""

    PROFILE = "profile"
    SHARED = "shared"


SORTS = ("key",)
"""The orders of secrets."""


class SecretsQuery(ListQuery):
    """The query of a list of secrets."""

    sort: str = sorting(SORTS)


@router.get("/{scope}/{scope_id}", responses=answers("Secrets"), response_class=Json)
async def list_secrets(
    scope: VaultScope, scope_id: str, request: Request, query: Annotated[SecretsQuery, Query()]
) -> Response:
    """Return the names of secrets, never their values; `me` is the profile of the key."""
    where = _permitted(request, scope, scope_id, READ)
    query.sorted_by(SORTS)
    secrets = [
        {"key": note.key, "updatedAt": to_iso(note.updated_at)}
        for note in await context_of(request).kept.vault.notes(where)
        if query.search in note.key
    ]
    page = query.page
    secrets.sort(key=lambda each: each["key"], reverse=page.descends(usually=False))
    return page_of("secrets", secrets[page.offset : page.offset + page.limit], page, len(secrets))


@router.put(
    "/{scope}/{scope_id}/{key}",
    status_code=204,
    responses=_DONE,
    response_class=Response,
    openapi_extra=takes(SECRET),
)
async def set_secret(scope: VaultScope, scope_id: str, key: str, request: Request) -> Response:
    """Set a secret, replacing an existing one; `X-Warning` reports a value that is too short."""
    where, context = _permitted(request, scope, scope_id, CHAT), context_of(request)
    body, _ = await read_json(request, context.limits.request_bytes)
    value = SECRET.read(body)["value"]
    await context.kept.vault.set(where, key, value)
    if warning := warning_of(value):
        log.warning("%s of %s: %s", key, where, warning)
        return Response(status_code=204, headers={"x-warning": warning})
    return Response(status_code=204)


@router.delete(
    "/{scope}/{scope_id}/{key}", status_code=204, responses=_DONE, response_class=Response
)
async def delete_secret(scope: VaultScope, scope_id: str, key: str, request: Request) -> Response:
    """Delete a secret."""
    where = _permitted(request, scope, scope_id, CHAT)
    if not await context_of(request).kept.vault.delete(where, key):
        raise NotFound(f"there is no secret {key!r}")
    return Response(status_code=204)


def _permitted(request: Request, scope: VaultScope, scope_id: str, permission: str) -> Scope:
    """Return the scope. Raises Forbidden or NotFound if the profile cannot use it."""
    if scope is VaultScope.SHARED:
        allowed(request, VAULT_WRITE)
        return Scope(ScopeKind.SHARED, scope_id)
    profile = allowed(request, permission)
    owner = profile.profile_id if scope_id == MINE else ProfileId(scope_id)
    owned(profile, owner, f"profile {scope_id!r}")
    return Scope(ScopeKind.PROFILE, owner)
