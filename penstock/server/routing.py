"""Routes, and the path that the server is mounted at, below which they are found."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.types import Scope

from penstock.core.late import hidden

REFUSED = "pydantic.v1"
"""FastAPI loads 75 modules of pydantic.v1 only to check that a type is not one of them."""


class Router(APIRouter):
    """An APIRouter that hides `pydantic.v1` while it adds routes."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route."""
        with hidden(REFUSED):
            super().add_api_route(path, endpoint, **options)


def root_of(scope: Scope) -> str:
    """Return the path that the server is mounted at, usually empty, without a final slash."""
    root: str = scope.get("root_path", "")
    return root.rstrip("/")


def path_of(scope: Scope) -> str:
    """Return the path of a request below the mount path, which selects its route.

    Admission and routing must see the same path, so this repeats what Starlette's routes do.
    """
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    below = path.removeprefix(root)
    return below if below in {"", path} or below.startswith("/") else path


def way_up(scope: Scope) -> str:
    """Return the relative address of the mount path, for a page at this request's path.

    It is relative because a proxy may serve the server below a prefix that the server cannot know.
    """
    return "../" * (path_of(scope).count("/") - 1) or "./"
