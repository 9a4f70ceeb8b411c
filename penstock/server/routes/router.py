"""A router that avoids loading the parts of FastAPI that the server does not use."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from penstock.core.late import hidden

REFUSED = "pydantic.v1"
"""FastAPI loads 75 modules of pydantic.v1 only to check that a type is not one of them."""


class Router(APIRouter):
    """An APIRouter that hides `pydantic.v1` while it adds routes."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route."""
        with hidden(REFUSED):
            super().add_api_route(path, endpoint, **options)
