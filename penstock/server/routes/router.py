"""The routes of one resource, made without what FastAPI loads only to refuse it."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from penstock.core.late import hidden

REFUSED = "pydantic.v1"
"""Models of another age: FastAPI loads 75 modules to see that a type is none of theirs."""


class Router(APIRouter):
    """Knows its routes."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route."""
        with hidden(REFUSED):
            super().add_api_route(path, endpoint, **options)
