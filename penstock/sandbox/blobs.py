"""The wasm blobs of the sandbox: their pins, and the cache of their machine code.

`make setup` fetches the blobs, and the wheel contains them; `blobs.json` pins each by SHA-256, and
`blob` refuses any other content. Compiling a blob takes a second or two, so the machine code is
kept in a cache folder. That code runs in this process with all of its rights, unchecked: so the
folder must belong to this user, and others must not be able to write to it. Files are replaced in
one step, because several processes may start at the same time. Proof: tests/sandbox/test_blobs.py.
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
    """Return the bytes of one blob. Raises ConfigError unless they match their pin."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the sandbox needs {name}, which is not in {folder}: run `make setup`"
        ) from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != pinned(name):
        raise ConfigError(
            f"{name} in {folder} is not the pinned one: expected SHA-256 {pinned(name)}, "
            f"found {actual}: delete it and run `make setup`"
        )
    return content


def pinned(name: str) -> str:
    """Return the SHA-256 that a blob must have."""
    sha256: str = json.loads(PINS.read_text())[name]["sha256"]
    return sha256


def machine_code(name: str, cache: Path) -> Path:
    """Return the path of the machine code of a blob, for the installed version of wasmtime."""
    open_cache(cache)
    version = importlib.metadata.version("wasmtime")
    return cache / f"{Path(name).stem}-{pinned(name)[:32]}-{version}.cwasm"


def open_cache(folder: Path) -> None:
    """Create a folder for this user only. Raises ConfigError if others may write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()  # checked after `mkdir`: the folder may have existed
    is_ours = os.name == "nt" or status.st_uid == os.geteuid()
    if not is_ours or (os.name != "nt" and status.st_mode & _OTHERS_MAY_WRITE):
        raise ConfigError(
            f"{folder} holds machine code, so only you may write to it; found owner "
            f"{status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}: make it yours, with mode 700"
        )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step. Concurrent writers replace it with the same content."""
    descriptor, part = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def check_engine() -> None:
    """Raise ConfigError unless the installed wasmtime has an engine for this machine.

    Importing wasmtime without one fails with the name of a file; this check comes first and says
    what to do.
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
