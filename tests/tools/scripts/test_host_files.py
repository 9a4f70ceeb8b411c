"""Files of the workspace that a script reads whole."""

from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.core.state import parse_path
from penstock.testing.invocation import open_workbench
from penstock.tools.scripts.bindings import Bindings
from tests.kit.hosts import Asking, asking
from tests.kit.tools import Act

BAD: list[Any] = [
    None,
    "",
    1,
    "a.txt",
    "file:///etc/passwd",
    "task:///a",
    "task://a/../b",
    "task://./a",
    "task://a//b",
    "task://a\\b",
    "task://a\0",
    "task://" + "x" * 600,
    "task://" + "a/" * 40 + "b",
]


@pytest.mark.parametrize("path", BAD)
async def test_a_path_of_no_form_is_a_mistake(path: Any) -> None:
    host = await asking()
    assert await host.refusal("fs.readBytes", {"path": path}) == "TypeError"


async def written(host: Asking, uri: str, content: bytes) -> None:
    workspace = host.invocation.workspace
    await workspace.make(await workspace.write(parse_path(uri), content))


async def test_a_file_is_read_and_in_a_later_entry_it_is_what_it_was() -> None:
    host = await asking()
    await written(host, "task://a.bin", b"\x00\xff")
    assert await host.value("fs.readBytes", path="task://a.bin") == b"\x00\xff"
    await written(host, "task://a.bin", b"other")
    host.begin()
    assert await host.value("fs.readBytes", path="task://a.bin") == b"\x00\xff"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("task://none", "not_found"),
        ("task://d", "is_directory"),
        ("task://", "is_directory"),
        ("session://", "is_directory"),
        ("task://d/big", "too_large"),
    ],
)
async def test_what_cannot_be_read_says_why_and_says_it_again(path: str, reason: str) -> None:
    bench = await open_workbench(tool := Act("script"), limits=Limits(read_bytes=3))
    host = Asking(bench, tool, Bindings())
    await written(host, "task://d/big", b"1234")
    for _ in range(2):
        settled = await host.ask("fs.readBytes", {"path": path})
        assert settled.refusal
        assert (settled.refusal.detail.details or {})["reason"] == reason
        host.begin()
