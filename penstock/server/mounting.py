"""Serves a runtime inside another application: plain ASGI, or mounted in FastAPI.

How `mount` decides who asks: without `profile` the mounted application admits requests itself, by
API keys. With `profile` the outer application does: the dependency runs as for its own routes, and
the profile that it returns is noted in the scope of the request, where no client can write.

Shown by tests/server/test_mounting.py.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.params import Depends as DependsParameter
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.app.runtime import Runtime
from penstock.core.errors import ConfigError, RuntimeMisuse
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.profile import Profile
from penstock.server.application import create_application
from penstock.server.context import GRANTED

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_REFERENCE = "#/components/schemas/"
_PREFIX = "Penstock"
Opening = Runtime | AbstractAsyncContextManager[Runtime, Any]


def asgi(runtime: Opening) -> ASGIApp:
    """Return the HTTP API of a runtime as an ASGI application, for any ASGI server.

    It has the routes, the page and the streams of `penstock serve`.

    Args:
        runtime: An open runtime, which the program closes. Or `penstock.open(…)`: then the server
            opens it at its start and closes it at its end (the lifespan of ASGI).

    Returns:
        The application.

    Raises:
        ConfigError: It is something else.

    Example:
        >>> import penstock
        >>> application = penstock.asgi(penstock.open(":memory:"))
    """
    _check_runtime(runtime, "asgi")
    return create_application(runtime if isinstance(runtime, Runtime) else lambda: runtime)


def mount(
    app: FastAPI,
    runtime: Opening,
    path: str,
    *,
    profile: Any = None,
    tags: Sequence[str] = ("penstock",),
) -> None:
    """Serve a runtime below a path of a FastAPI application.

    Its routes are in the OpenAPI document of the application, with these tags.

    Args:
        app: The application.
        runtime: An open runtime, which the program closes. Or `penstock.open(…)`: then the lifespan
            of the application opens and closes it.
        path: Where it is served, such as `/agents`.
        profile: `Depends(function)`: the function returns the Profile that a request is made for,
            or raises. None: requests need an API key; while no key exists, those of this machine
            need none, as with `penstock serve`.
        tags: The tags of its routes in the OpenAPI document.

    Raises:
        ConfigError: The path does not begin with a slash, or ends with one; `profile` is not made
            with `Depends`; or another argument is of another type.

    Example:
        >>> from fastapi import FastAPI
        >>> import penstock
        >>> app = FastAPI()
        >>> penstock.mount(app, penstock.open(":memory:"), "/agents")
        >>> "/agents/api/agents" in app.openapi()["paths"]
        True
    """
    _check(app, runtime, path, profile)
    names = _names(tags)
    inner = create_application(runtime if isinstance(runtime, Runtime) else lambda: runtime)
    _share_lifespan(app, inner)
    _share_document(app, inner, path, names)
    if profile is None:
        app.mount(path, inner)
        return

    async def forward(request: Request, granted: Any = profile) -> Response:
        return Forwarded(inner, path, _checked(granted, path))

    for route in (path, path + "/{below:path}"):
        app.add_api_route(
            route, forward, methods=list(METHODS), include_in_schema=False, response_model=None
        )


def _check(app: object, runtime: object, path: object, profile: object) -> None:
    if not isinstance(app, FastAPI):
        raise ConfigError(
            f"mount takes a FastAPI application, found {app!r}; another framework mounts "
            "penstock.asgi(runtime)"
        )
    _check_runtime(runtime, "mount")
    if not isinstance(path, str) or not path.startswith("/") or path.endswith("/"):
        raise ConfigError(f"a path begins with a slash and ends without one: found {path!r}")
    if profile is not None and not isinstance(profile, DependsParameter):
        raise ConfigError(
            f"`profile` must be `Depends(function)`, found {profile!r}: FastAPI calls the function "
            "for each request, and it returns the Profile of the request"
        )


def _check_runtime(runtime: object, function: str) -> None:
    if not isinstance(runtime, Runtime | AbstractAsyncContextManager):
        raise ConfigError(f"{function} takes a runtime or penstock.open(...), found {runtime!r}")


def _names(tags: Sequence[str]) -> list[str]:
    if isinstance(tags, str):  # a list of its letters else
        raise ConfigError(f"tags= takes a list of names, found {tags!r}: write [{tags!r}]")
    return list(tags)


def _checked(granted: Any, path: str) -> Profile:
    """Return the profile of a request. Raises RuntimeMisuse for anything else."""
    if isinstance(granted, Profile):
        return granted
    raise RuntimeMisuse(
        f"the dependency of penstock.mount at {path!r} must return a penstock.Profile or raise; "
        f"it returned {type(granted).__name__}"
    )


class Forwarded(Response):
    """Hands a request to the mounted application, for a profile."""

    def __init__(self, app: ASGIApp, path: str, profile: Profile) -> None:
        super().__init__()
        self._app = app
        self._path = path
        self._profile = profile

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request below the path."""
        root = f"{scope.get('root_path', '')}{self._path}"
        await self._app({**scope, "root_path": root, GRANTED: self._profile}, receive, send)


def _share_lifespan(app: FastAPI, inner: FastAPI) -> None:
    """Open and close the runtime with the application: a mounted one has no lifespan."""
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def both(application: Any) -> AsyncIterator[Any]:
        async with outer(application) as state, inner.router.lifespan_context(inner):
            yield state

    app.router.lifespan_context = both


def _share_document(app: FastAPI, inner: FastAPI, path: str, tags: Sequence[str]) -> None:
    """Add the routes and schemas to the OpenAPI document; schemas get a prefix of their own."""
    outer = app.openapi

    def openapi() -> dict[str, Any]:
        document = outer()
        if any(each.startswith(f"{path}/api/") for each in document["paths"]):
            return document  # FastAPI keeps the document that it returned first
        renamed = compact(inner.openapi()).replace(_REFERENCE, f"{_REFERENCE}{_PREFIX}")
        added = parse_json(renamed)
        for route, operations in added["paths"].items():
            document["paths"][path + route] = {
                method: operation | {"tags": tags} for method, operation in operations.items()
            }
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in added["components"]["schemas"].items():
            schemas[f"{_PREFIX}{name}"] = schema
        return document

    app.openapi = openapi  # type: ignore[method-assign]
