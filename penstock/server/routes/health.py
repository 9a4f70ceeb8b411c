"""Liveness and readiness of the server."""

from importlib.metadata import version

from fastapi import Request
from starlette.responses import Response

from penstock.core.profile import ADMIN
from penstock.server.context import PROFILE, ServerContext, ServerLifecycle
from penstock.server.openapi import answers
from penstock.server.problem import RETRY_SECONDS, Json
from penstock.server.routing import Router

router = Router(prefix="/api", tags=["health"])

VERSION = version("penstock")
CHECKS = ("database", "migrations", "launcher", "disk", "blobs")


@router.head("/health", include_in_schema=False, response_class=Json)
@router.get("/health", responses=answers("Health"), response_class=Json)
async def live(request: Request) -> Response:
    """Report that the process is alive."""
    return Json({"status": "ok", "version": VERSION})


@router.get("/ready", responses=answers("Readiness", s503="Readiness"), response_class=Json)
async def ready(request: Request) -> Response:
    """Report whether the server can serve requests; details need the permission `admin`."""
    lifecycle: ServerLifecycle = request.app.state.lifecycle
    whys = await _whys(lifecycle.context)
    body: dict[str, object] = {"status": "failed" if whys else "ok"}
    profile = request.scope.get(PROFILE)
    if lifecycle.context is None or (profile is not None and profile.holds(ADMIN)):
        body["checks"] = {name: "failed" if name in whys else "ok" for name in CHECKS}
        if whys:
            body["details"] = whys
        if layers := _confinement(lifecycle.context):
            body["confinement"] = layers
    again = {"Retry-After": str(RETRY_SECONDS)}
    return Json(body, 503, again) if whys else Json(body)


async def _whys(context: ServerContext | None) -> dict[str, str]:
    """Return the checks that fail, with the reason."""
    if context is None:
        return dict.fromkeys(CHECKS, "the server is starting")
    database_parts = context.storage.database_parts
    whys = {each.name: each.why for each in await database_parts.look()} if database_parts else {}
    if context.is_draining:
        whys["launcher"] = "the server is stopping"
    elif not context.engine.launcher.is_at_work:
        whys["launcher"] = "the launcher has stopped, so no task runs; restart the server"
    return {name: why for name, why in whys.items() if why}


def _confinement(context: ServerContext | None) -> dict[str, str]:
    """Return the layers that confine scripts, and which of them this machine lacks."""
    layers = context.tools.confinement if context else {}
    return {name: f"missing: {why}" if why else "ok" for name, why in layers.items()}
