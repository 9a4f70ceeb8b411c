"""Routes, the modules that they do not load, and the mount path."""

import subprocess
import sys

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from starlette._utils import get_route_path

from penstock.server.routing import Router, path_of, root_of, way_up

pytestmark = pytest.mark.programs
UNUSED = ("pydantic.v1", "penstock.sandbox.processes.deno", "penstock.sandbox.processes.enclose")


def test_a_router_adds_routes_as_fastapi_does() -> None:
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
def test_a_starting_server_loads_no_unused_module() -> None:
    code = (
        "import sys, penstock.app.opening, penstock.server.application;"
        f"print(*[each for each in {UNUSED!r} if each in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == ""


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [
        ("", "/api/agents", "/api/agents"),
        ("/penstock", "/penstock/api/agents", "/api/agents"),
        ("/penstock", "/penstock/", "/"),
        ("/penstock", "/penstock", ""),
        ("/api", "/api/api/agents", "/api/agents"),
        ("/penstock", "/penstocks/api", "/penstocks/api"),
        ("/penstock", "/api/agents", "/api/agents"),
        ("/penstock/", "/penstock/api", "/penstock/api"),
    ],
)
def test_admission_and_routing_see_the_same_path(root: str, path: str, below: str) -> None:
    scope = {"type": "http", "root_path": root, "path": path}
    assert path_of(scope) == get_route_path(scope) == below


@pytest.mark.parametrize(
    ("root", "path", "way"),
    [
        ("", "/", "./"),
        ("", "/login", "./"),
        ("", "/c/conv_1", "../"),
        ("/a/b", "/a/b/c/conv_1", "../"),
        ("", "/api/links/t", "../../"),
    ],
)
def test_the_way_up_leads_from_a_page_to_the_mount_path(root: str, path: str, way: str) -> None:
    assert way_up({"type": "http", "root_path": root, "path": path}) == way


def test_a_root_path_has_no_final_slash() -> None:
    assert [root_of({"root_path": each}) for each in ("", "/", "/a", "/a/")] == ["", "", "/a", "/a"]
