"""The HTTP server of a project."""

import socket
from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]


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
