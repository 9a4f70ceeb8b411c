"""Zip archives of workspace files: packed, and unpacked without escaping the target directory.

`unzip` checks every entry before it writes one: names that lead out of the directory, links,
encryption, duplicates, and sizes out of proportion. It reads no more of an entry than the size that
the archive declares, and the files become visible together, with the record of the call.
Proof: tests/builtins/test_archive.py.
"""

import asyncio
import re
import stat
import struct
import zlib
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.envelope import Json
from penstock.core.scopes import FilePath
from penstock.core.stored.changes import FileChange, WorkspaceChange
from penstock.resources.workspace import Workspace, inside
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import URI, builtin, list_of, place, read_place

MAX_ENTRIES = 10_000
MAX_UNPACKED = 256 * 1024 * 1024
MAX_RATIO = 200
_MAX_HEADERS = 10 * MAX_ENTRIES
"""An archive with more signatures of entries is refused unread. Some may be part of a file."""
_BATCH_SIZE = 16
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_PLAIN = {0, stat.S_IFREG, stat.S_IFDIR}
_DRIVE = re.compile(r"[A-Za-z]:")
_BROKEN = (BadZipFile, EOFError, NotImplementedError, OSError, ValueError, struct.error, zlib.error)


@builtin(
    "Pack files and directories of the workspace into a new zip file. A directory goes in with all "
    "that is below it, under its own name. Fails with exists if output_path is there already.",
    {"input_paths": list_of(URI), "output_path": URI},
    effect=Effect.WRITE,
    tool_id="zip",
)
async def pack(input: Json, invocation: Invocation) -> Any:
    """Write an archive."""
    inputs = [
        read_place(uri, f"/input_paths/{number}", invocation)
        for number, uri in enumerate(input["input_paths"])
    ]
    target, workspace = place(input, "output_path", invocation), invocation.workspace
    entries = await _entries(inputs, workspace)
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, path in entries.items():
            content = await workspace.read(path, most=MAX_UNPACKED)
            write = partial(archive.writestr, _entry(name), content, ZIP_DEFLATED)
            await invocation.edition.threads.run(write)
            _check_size(packed.tell(), invocation)
    change = await workspace.write(target, packed.getvalue(), replaces=False)
    invocation.change = WorkspaceChange(files=(change,))
    return {
        "input_paths": list(map(str, inputs)),
        "output_path": str(target),
        "entry_count": len(entries),
        "size_bytes": change.size,
    }


@builtin(
    "Unpack a zip file of the workspace into a directory, all of it or nothing. Fails with exists "
    "if one of its files is there already, and with unsafe_archive for names that lead elsewhere, "
    "links, encryption, duplicates, and files far larger than the archive.",
    {"input_path": URI, "output_dir": URI},
    effect=Effect.WRITE,
    tool_id="unzip",
)
async def unpack(input: Json, invocation: Invocation) -> Any:
    """Unpack an archive."""
    source, target = (place(input, name, invocation) for name in ("input_path", "output_dir"))
    workspace = invocation.workspace
    packed = await workspace.read(source, most=invocation.edition.world.limits.file_bytes)
    archive: ZipFile = await invocation.edition.threads.run(partial(_opened, packed, source))
    with archive:
        infos = _checked(archive, packed, source)
        targets = [_target(target, info) for info in infos]
        if len(set(targets)) < len(targets):
            raise _unsafe(f"{str(source)!r} has two files of one name")
        changes: dict[FilePath, FileChange] = {}

        async def write(path: FilePath, content: bytes) -> None:
            changes[path] = await workspace.write(path, content, replaces=False)

        try:
            for first in range(0, len(infos), _BATCH_SIZE):
                part = slice(first, first + _BATCH_SIZE)
                read = partial(_contents, archive, infos[part], source)
                contents = await invocation.edition.threads.run(read)
                await _every(map(write, targets[part], contents))
        finally:  # also after a failure, so that the stored bytes are known and removed
            put = [changes[each] for each in targets if each in changes]
            invocation.change = WorkspaceChange(files=tuple(put))
    return {
        "input_path": str(source),
        "output_dir": str(target),
        "entry_count": len(targets),
        "written_paths": list(map(str, targets)),
    }


async def _every(writes: Iterable[Awaitable[None]]) -> None:
    """Wait for all writes, also when one fails: none continues after the outcome."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _entries(inputs: Sequence[FilePath], workspace: Workspace) -> dict[str, FilePath]:
    """Return the file of each entry, by the name of the entry."""
    entries: dict[str, FilePath] = {}
    unpacked = 0
    for path in inputs:
        if await workspace.is_directory(path):
            files = await workspace.below(path, most=MAX_ENTRIES + 1)
        else:
            files = [await workspace.file(path)]
        above = path.path.rpartition("/")[0]
        for file in files:
            name = file.path.removeprefix(inside(above))
            if name in entries:
                raise tool_failure("exists", f"two inputs would both be {name!r} in the archive")
            entries[name] = FilePath(path.kind, file.path)
            unpacked += file.size
            _check_bounds(len(entries), unpacked, "the inputs")
    return entries


def _entry(name: str) -> ZipInfo:
    """Return the header of an entry. It has no time, so that equal files give equal archives."""
    entry = ZipInfo(name)
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry


def _check_bounds(entries: int, unpacked: int, what: str) -> None:
    if entries > MAX_ENTRIES:
        raise tool_failure(
            "too_large", f"an archive has at most {MAX_ENTRIES} files, {what} have more"
        )
    if unpacked > MAX_UNPACKED:
        raise tool_failure("too_large", f"{what} have more than {MAX_UNPACKED} bytes, unpacked")


def _check_size(size: int, invocation: Invocation) -> None:
    if size > (most := invocation.edition.world.limits.file_bytes):
        raise tool_failure("too_large", f"the archive would have more than {most} bytes")


def _opened(packed: bytes, source: FilePath) -> ZipFile:
    if packed.count(b"PK\1\2") > _MAX_HEADERS:
        raise _unsafe(f"{str(source)!r} has more than {MAX_ENTRIES} entries")
    try:
        return ZipFile(BytesIO(packed))
    except _BROKEN as error:
        raise _no_archive(source, error) from error


def _checked(archive: ZipFile, packed: bytes, source: FilePath) -> list[ZipInfo]:
    """Return the files of an archive that passed every check."""
    infos = archive.infolist()
    for info in infos:
        _check(info)
    files = [info for info in infos if not info.is_dir()]
    unpacked = sum(info.file_size for info in files)
    if unpacked > MAX_RATIO * len(packed):
        raise _unsafe(f"{str(source)!r} unpacks to more than {MAX_RATIO} times its size")
    _check_bounds(len(infos), unpacked, f"the files of {str(source)!r}")
    return files


def _check(info: ZipInfo) -> None:
    """Raise ToolFailed for an entry that is not a plain file or directory."""
    name = info.orig_filename
    if info.flag_bits & _ENCRYPTED:
        raise _unsafe(f"{name!r} is encrypted")
    if stat.S_IFMT(info.external_attr >> 16) not in _PLAIN:
        raise _unsafe(f"{name!r} is a link or another special file")
    if _DRIVE.match(name):
        raise _unsafe(f"{name!r} is not a name below a directory")
    if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
        raise tool_failure("bad_format", f"{name!r} is packed with an unsupported method")


def _target(directory: FilePath, info: ZipInfo) -> FilePath:
    try:
        return directory / info.orig_filename
    except ValueError as error:
        raise _unsafe(f"{info.orig_filename!r} is not a name below a directory: {error}") from None


def _contents(archive: ZipFile, infos: Sequence[ZipInfo], source: FilePath) -> list[bytes]:
    """Return the bytes of entries, at most the declared size, with their checksums verified."""
    contents = []
    try:
        for info in infos:
            with archive.open(info) as opened:
                # without a bound, a false size would not bound what is unpacked in memory
                contents.append(opened.read(info.file_size + 1))
    except _BROKEN as error:
        raise _no_archive(source, error) from error
    return contents


def _no_archive(source: FilePath, error: Exception) -> ToolFailed:
    return tool_failure("bad_format", f"{str(source)!r} is not a readable zip file: {error}")


def _unsafe(message: str) -> ToolFailed:
    return tool_failure("unsafe_archive", f"{message}; nothing was unpacked")


TOOLS = (pack, unpack)
