"""`read` and `ls`: a file in parts, and a folder; also `of_project`, which declares such tools."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import not_a_directory, not_utf8, tool_failure
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.resources.project.files import ProjectFiles, ProjectPath
from penstock.resources.project.search import entries, has_readable
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import Act, BuiltIn, builtin, offered_without, whole
from penstock.tools.shell import ShellSettings
from penstock.tools.spec import CheckBounds

READ, WRITE = "project.read", "project.write"
PATH: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "A path from the project's folder, or an absolute one in it",
}
FOLDER: Json = {**PATH, "description": "Where to begin; the project's folder if it is left out"}
YES_OR_NO: Json = {"type": "boolean"}


def of_project(
    description: str,
    fields: Mapping[str, Json],
    *,
    permission: str = READ,
    idempotent: bool = False,
    check_bounds: CheckBounds,
) -> Callable[[Act], BuiltIn]:
    """Return a decorator that makes a coroutine a tool for the project's folder.

    `check_bounds` checks an input before the call: it raises what the coroutine would raise.
    """
    effect = Effect.READ if permission == READ else Effect.WRITE

    def make(act: Act) -> BuiltIn:
        made = builtin(description, fields, effect=effect, is_transactional=False)(act)
        spec = replace(
            made.spec,
            is_offered=True,
            requires_permissions=frozenset({permission}),
            idempotent=idempotent,
            asks_in_chats=effect is Effect.WRITE,
            check_bounds=check_bounds,
        )
        return replace(made, spec=spec)

    return make


def check_bounds_below(input: Json, files: ProjectFiles, _: ShellSettings) -> None:
    """Raise NotPermitted for a folder in which the agent may read nothing."""
    files.start(input.get("path", "."))


MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MAX_SIZE = 1 << 30
"""Largest file: all its lines are counted, which takes half a second for this size."""
MAX_NAMES = 500
_CHUNK = 1 << 20
_PIECE = 1 << 16


class FilePart(Struct, frozen=True, kw_only=True):
    """Some lines of a file."""

    content: bytes
    first: int
    last: int
    total: int
    whole_line: int = 0
    """Size in bytes of the only line, if that is cut."""


def _file(input: Json, files: ProjectFiles) -> ProjectPath:
    paths = [input[name] for name in ("path", "file_path") if name in input]
    if len(paths) != 1:
        raise invalid("read", [Problem("/path", "give exactly one of path and file_path")])
    return files.readable(paths[0])


def _check_bounds(input: Json, files: ProjectFiles, _: ShellSettings) -> None:
    _file(input, files)


@offered_without("file_path", instead="path")
@of_project(
    "Read a UTF-8 text file of the project: at most 2,000 lines or 50 KB at once, from the line "
    "offset. A cut text ends with a line that says where to continue.",
    {
        "path?": PATH,
        "file_path?": {**PATH, "description": "The same as path"},
        "offset?": whole(1, 1 << 31, "The first line, from 1"),
        "limit?": whole(1, MAX_LINES, "How many lines"),
    },
    check_bounds=_check_bounds,
)
async def read(input: Json, invocation: Invocation) -> Any:
    """Return the text of a file, or of some lines."""
    files, first = invocation.project, input.get("offset", 1)
    path = _file(input, files)
    most = input.get("limit", MAX_LINES)
    part = await invocation.edition.threads.run(partial(_part, files, path, first, most))
    return _text(part, path)


@of_project(
    "List the entries of a folder of the project, by name; folders end with /. Entries that you "
    "may not read are omitted.",
    {"path?": FOLDER, "limit?": whole(1, 10_000, "How many names")},
    check_bounds=check_bounds_below,
)
async def ls(input: Json, invocation: Invocation) -> Any:
    """Return the names in a folder."""
    files, named = invocation.project, input.get("path", ".")
    limit = input.get("limit", MAX_NAMES)
    return await invocation.edition.threads.run(partial(_listed, files, named, limit))


def _part(files: ProjectFiles, path: ProjectPath, first: int, most: int) -> FilePart:
    with files.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_SIZE:
            raise tool_failure(
                "too_large", f"{path.named!r} has {size} bytes; read takes files of {MAX_SIZE}"
            )
        return read_part(file, first, most)


def read_part(file: BinaryIO, first: int, most: int) -> FilePart:
    """Return lines of a file and the number of all lines, without reading it into memory."""
    number, content = 1, b""
    while number < first:
        piece = file.readline(_PIECE)
        if not piece:
            return FilePart(content=b"", first=first, last=first - 1, total=number - 1)
        number += piece.endswith(b"\n")
    while number < first + most:
        line, size = _line(file)
        if not size:
            return FilePart(content=content, first=first, last=number - 1, total=number - 1)
        if len(content) + size > MAX_BYTES:
            if content:
                return _ended(content, first, number - 1, number + _lines_left(file))
            total = number + _lines_left(file)
            return FilePart(content=line, first=first, last=number, total=total, whole_line=size)
        content += line
        number += 1
    return _ended(content, first, number - 1, number - 1 + _lines_left(file))


def _line(file: BinaryIO) -> tuple[bytes, int]:
    """Return the next line, cut to what can be shown, and its size."""
    line = piece = file.readline(_PIECE)
    size = len(piece)
    while piece and not piece.endswith(b"\n"):
        piece = file.readline(_PIECE)
        size += len(piece)
    return line[:MAX_BYTES], size


def _ended(content: bytes, first: int, last: int, total: int) -> FilePart:
    return FilePart(content=content, first=first, last=last, total=total)


def _lines_left(file: BinaryIO) -> int:
    lines, last = 0, b"\n"
    while chunk := file.read(_CHUNK):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    return lines + (last != b"\n")


def _text(part: FilePart, path: ProjectPath) -> str:
    if part.first > max(part.total, 1):
        raise tool_failure(
            "bad_range", f"{path.named!r} has {part.total} lines, none at {part.first}"
        )
    try:
        if b"\0" in part.content:
            raise tool_failure("not_text", f"{path.named!r} is not text: it has a zero byte")
        text = part.content.decode("utf-8", "ignore" if part.whole_line else "strict")
    except UnicodeDecodeError as error:
        raise not_utf8(path.named, error) from None
    if part.last == part.total and not part.whole_line:
        return text
    note = f"lines {part.first}-{part.last} of {part.total}"
    if part.whole_line:
        note += f"; line {part.last} has {part.whole_line} bytes and is cut"
    if part.last < part.total:
        note += f"; go on with offset {part.last + 1}"
    return f"{text.removesuffix(chr(10))}\n[{note}]"


def _listed(files: ProjectFiles, named: str, limit: int) -> str:
    folder = files.start(named)
    if not files.whole(folder).is_dir():
        raise not_a_directory(named)
    names = [
        f"{each.name}/" if each.is_folder else each.name
        for each in islice(entries(files, folder), limit + 1)
    ]
    if not names and files.access.limits_reads and not has_readable(files, folder):
        files.refuse(folder)
    more = [f"[the first {limit} names; there are more]"] if len(names) > limit else []
    return "\n".join([*names[:limit], *more])


TOOLS = (read, ls)
