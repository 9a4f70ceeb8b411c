"""The wasm that the sandbox is made of: whether it is the pinned one, and its machine code.

The blobs are fetched by `make setup` and stand in the wheel; `blobs.json` pins them. Compiling one
takes a second or two, so what came of it is kept in a folder. That is machine code which runs in
this process: nobody else may be able to write there.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import stat
import sys
import tempfile
from pathlib import Path

from penstock.core.errors import ConfigError

FOLDER = Path(__file__).with_name("blobs")
PINS = Path(__file__).with_name("blobs.json")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64", "ARM64": "aarch64"}


def blob(name: str, folder: Path = FOLDER) -> bytes:
    """Return the bytes of one blob, which are those that blobs.json pins."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the sandbox needs {name}, which is not in {folder}: run `make setup`"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != pinned(name):
        raise ConfigError(
            f"{name} in {folder} is not the pinned one: wanted SHA-256 {pinned(name)}, "
            f"found {found}: delete it and run `make setup`"
        )
    return content


def pinned(name: str) -> str:
    """Return the SHA-256 that a blob must have."""
    sha256: str = json.loads(PINS.read_text())[name]["sha256"]
    return sha256


def machine_code(name: str, cache: Path) -> Path:
    """Return where the machine code of a blob is kept; wasmtime of another version has its own."""
    open_cache(cache)
    version = importlib.metadata.version("wasmtime")
    return cache / f"{Path(name).stem}-{pinned(name)[:32]}-{version}.cwasm"


def open_cache(folder: Path) -> None:
    """Make a folder for the user alone; one that somebody else may write to is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    is_ours = os.name == "nt" or found.st_uid == os.geteuid()
    if not is_ours or (os.name != "nt" and found.st_mode & _OTHERS_MAY_WRITE):
        raise ConfigError(
            f"{folder} holds machine code, so nobody else may write to it; found owner "
            f"{found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}: make it yours, with mode 700"
        )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is never seen half written; who comes second replaces the same content."""
    descriptor, part = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def check_engine() -> None:
    """Raise unless the installed wasmtime has an engine for this machine.

    Where it has none, importing it fails with the name of a file; so this comes first.
    """
    spec = importlib.util.find_spec("wasmtime")
    if spec is None or spec.origin is None:
        raise ConfigError("the sandbox needs wasmtime, which is not installed: run `make setup`")
    machine = _MACHINES.get(platform.machine(), platform.machine())
    library = Path(spec.origin).parent / f"{sys.platform}-{machine}"
    if not library.is_dir():
        raise ConfigError(
            f"scripts cannot run here: the installed wasmtime has no engine for {sys.platform} "
            f"on {machine}; install penstock on another machine, or do without scripts"
        )
