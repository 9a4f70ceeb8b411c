"""The HTTP server of a project."""

import socket
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def test_a_port_in_use_is_reported_with_a_next_step(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, told = run("serve", "--port", port)
    assert code == 1
    assert told.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert "Choose another with --host, --port." in told


def test_an_address_for_others_needs_a_key(run: Run) -> None:
    """Spec: "Any other bind address refuses to start without a key and says how to make one"."""
    code, _, told = run("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert code == 1
    assert "penstock keys create NAME" in told


def test_a_strict_server_does_not_start_while_anything_is_wrong(run: Run, project: Path) -> None:
    """`penstock serve --strict` makes any error fatal at start."""
    (project / "tools" / "a.tool.yaml").write_text("name: a\n")
    code, _, told = run("serve", "--strict", "--port", "0")
    assert code == 1
    assert told.startswith("Error: tools/a.tool.yaml:1:1: error missing-key")
