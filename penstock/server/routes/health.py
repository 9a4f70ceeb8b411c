"""Whether the server lives, and whether it can serve."""

from importlib.metadata import version

from fastapi import Request
from starlette.responses import Response

from penstock.core.profile import ADMIN
from penstock.server.context import PROFILE, ServerContext, ServerLifecycle
from penstock.server.requests.problem import RETRY_SECONDS, Json
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers

router = Router(prefix="/api", tags=["health"])

VERSION = version("penstock")
CHECKS = ("database", "migrations", "launcher", "disk", "blobs")


@router.head("/health", include_in_schema=False, response_class=Json)
@router.get("/health", responses=answers("Health"), response_class=Json)
async def live(request: Request) -> Response:
    """Say that the process serves."""
    return Json({"status": "ok", "version": VERSION})


@router.get("/ready", responses=answers("Readiness", s503="Readiness"), response_class=Json)
async def ready(request: Request) -> Response:
    """Say whether requests can be served; what is wrong is for those with `admin`."""
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
    """Return what does not work, and why."""
    if context is None:
        return dict.fromkeys(CHECKS, "the server is starting")
    database_parts = context.runtime.parts.database_parts
    whys = {each.name: each.why for each in await database_parts.look()} if database_parts else {}
    if context.is_draining:
        whys["launcher"] = "the server is about to stop"
    elif not context.runtime.parts.launcher.is_at_work:
        whys["launcher"] = "tasks are not looked for any more; start the server again"
    return {name: why for name, why in whys.items() if why}


def _confinement(context: ServerContext | None) -> dict[str, str]:
    """Return what confines scripts, where they are to be, and what this machine lacks for it."""
    layers = context.runtime.parts.confinement if context else {}
    return {name: f"missing: {why}" if why else "ok" for name, why in layers.items()}
