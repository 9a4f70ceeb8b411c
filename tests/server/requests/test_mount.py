"""Where the server is mounted."""

import pytest
from starlette._utils import get_route_path

from penstock.server.requests.mount import path_of, root_of, way_up


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
def test_admission_sees_the_path_that_routes_see(root: str, path: str, below: str) -> None:
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
def test_the_way_up_leads_from_a_page_to_the_beginning(root: str, path: str, way: str) -> None:
    assert way_up({"type": "http", "root_path": root, "path": path}) == way


def test_a_root_ends_without_a_slash() -> None:
    assert [root_of({"root_path": each}) for each in ("", "/", "/a", "/a/")] == ["", "", "/a", "/a"]
