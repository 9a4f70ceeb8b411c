"""Routes, and what a server does not load for them."""

import subprocess
import sys

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient

from penstock.server.routes.router import Router

pytestmark = pytest.mark.serial
UNUSED = ("pydantic.v1", "penstock.sandbox.processes.deno", "penstock.sandbox.processes.enclose")


def test_a_router_knows_its_routes_as_any_other_does() -> None:
    router = Router(prefix="/api")

    @router.get("/double/{number}")
    async def double(number: int, plus: int = 0) -> dict[str, int]:
        return {"is": 2 * number + plus}

    app = FastAPI()
    app.include_router(router)
    with TestClient(app) as client:
        assert client.get("/api/double/4?plus=1").json() == {"is": 9}
        assert client.get("/api/double/four").status_code == 422
    assert isinstance(router, APIRouter)


@pytest.mark.slow("a process that loads the whole server")
def test_a_server_that_starts_has_not_loaded_what_it_may_never_use() -> None:
    code = (
        "import sys, penstock.app.opening, penstock.server.application;"
        f"print(*[each for each in {UNUSED!r} if each in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == ""
