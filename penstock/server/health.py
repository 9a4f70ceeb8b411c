"""Whether the server lives, and whether it can serve."""

import asyncio
from collections.abc import Awaitable
from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.core.errors import PenstockError
from penstock.core.ids import LogId
from penstock.core.profile import ADMIN
from penstock.server.openapi import answers
from penstock.server.problem import Json
from penstock.server.site import PROFILE, Doorstep, Site

router = APIRouter(prefix="/api", tags=["health"])

_VERSION = version("penstock")
_CHECK_SECONDS = 1


@router.head("/health", include_in_schema=False, response_class=Json)
@router.get("/health", responses=answers("Health"), response_class=Json)
async def live(request: Request) -> Response:
    """Say that the process serves."""
    return Json({"status": "ok", "version": _VERSION})


@router.get("/ready", responses=answers("Readiness", s503="Readiness"), response_class=Json)
async def ready(request: Request) -> Response:
    """Say whether requests can be served; what is wrong is for those with `admin`."""
    doorstep: Doorstep = request.app.state.doorstep
    site = doorstep.site
    checks = {"database": "failed", "launcher": "failed"}
    if site is not None:
        answered = await asyncio.gather(_answers(_read(site)), _answers(_write(site)))
        checks["database"] = "ok" if all(answered) else "failed"
        checks["launcher"] = "failed" if doorstep.is_draining else "ok"
    is_ready = set(checks.values()) == {"ok"}
    body: dict[str, object] = {"status": "ok" if is_ready else "failed"}
    profile = request.scope.get(PROFILE)
    if profile is not None and profile.holds(ADMIN):
        body["checks"] = checks
    return Json(body, 200 if is_ready else 503)


async def _read(site: Site) -> None:
    await site.runtime.parts.log.head(LogId(""))


async def _write(site: Site) -> None:
    if archive := site.runtime.parts.archive:
        await archive.try_write()


async def _answers(check: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check
    except (PenstockError, TimeoutError):
        return False
    return True
