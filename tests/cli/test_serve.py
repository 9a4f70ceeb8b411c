"""The HTTP server of a project."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.project import find, run
from penstock.cli.serve import banner

Run = Callable[..., tuple[int, str, str]]

ADDRESSES = [
    (("127.0.0.1", 8000), False, "curl -N http://127.0.0.1:8000/api/agents/assistant/chat -H 'con"),
    (("::1", 8000), False, "curl -N http://[::1]:8000/api/agents/assistant/chat -H 'content-type"),
    (("10.0.0.1", 80), True, '/chat -H "authorization: Bearer $KEY" -H \'content-type: applicati'),
]


@pytest.mark.parametrize(("address", "needs_key", "said"), ADDRESSES)
def test_the_banner_has_a_page_to_open_and_a_line_to_paste(
    project: Path, address: tuple[str, int], needs_key: bool, said: str
) -> None:
    async def work(runtime: Runtime) -> str:
        return banner(find(project), runtime, address, needs_key=needs_key)

    text = run(project, work)
    assert said in text
    host, port = address
    assert f"  Open http://{f'[{host}]' if ':' in host else host}:{port}/ in a browser" in text
    assert "agents: assistant; model: offline" in text
    assert "tools/*.py run in this process, with all its rights" in text


def test_a_port_that_is_taken_is_said_with_the_way_out(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, told = run("serve", "--port", port)
    assert code == 1
    assert told.startswith(f"Error: 127.0.0.1:{port} cannot be bound: ")
    assert "Choose another with --host, --port." in told


def test_an_address_for_others_needs_a_key(run: Run) -> None:
    """Spec: "Any other bind address refuses to start without a key and says how to make one"."""
    code, _, told = run("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert code == 1
    assert "penstock keys create NAME" in told
