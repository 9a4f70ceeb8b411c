"""A search through files of a project, in a process that is ended when its time is over."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.exhaustion import starting_process
from penstock.resources.project.walk import FoundFile

SECONDS = 10.0
_PROGRAM = ("-I", "-m", "penstock.resources.project.matching")
_MOST_LINE = 64 << 20


class SearchQuery(Struct, frozen=True, kw_only=True):
    """What is looked for."""

    pattern: str
    ignore_case: bool = False
    is_literal: bool = False
    context: int = 0
    """Lines around each that matches."""
    limit: int = 100
    """Lines that match."""


class SearchHits(Struct, frozen=True, kw_only=True):
    """What a search came to."""

    lines: tuple[str, ...]
    is_cut: bool = False
    """There are more lines that match."""
    is_late: bool = False
    """The time was over before the end."""
    bad_pattern: str = ""
    """What is wrong with the pattern."""


async def search(
    root: Path, files: Sequence[FoundFile], wanted: SearchQuery, *, seconds: float = SECONDS
) -> SearchHits:
    """Return the lines of files that match, as `path:line: text`."""
    with starting_process():
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={},
            limit=_MOST_LINE,
        )
    said: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(seconds):
            await _spoken(process, _request(root, files, wanted), said)
            await process.wait()
    except TimeoutError:
        return SearchHits(lines=_lines(said), is_late=True)
    finally:
        if process.returncode is None:
            _kill(process.pid)
            await process.wait()
    end = said[-1] if said else {}
    return SearchHits(
        lines=_lines(said),
        is_cut=end.get("cut", False),
        bad_pattern=end.get("bad_pattern", ""),
    )


def _kill(pid: int) -> None:
    """End the process.

    `Process.kill` polls it first, and so takes the exit code of one that just ended away from
    asyncio, which then writes "Unknown child process pid" to stderr (CPython gh-87744).
    """
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _request(root: Path, files: Sequence[FoundFile], wanted: SearchQuery) -> bytes:
    return json.dumps(
        {
            "root": str(root),
            "files": [[each.path, each.real] for each in files],
            "pattern": wanted.pattern,
            "ignore_case": wanted.ignore_case,
            "literal": wanted.is_literal,
            "context": wanted.context,
            "limit": wanted.limit,
        }
    ).encode()


async def _spoken(
    process: asyncio.subprocess.Process, request: bytes, said: list[dict[str, Any]]
) -> None:
    """Send the request, and keep what is answered as it comes."""
    into, out = process.stdin, process.stdout
    if into is None or out is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        into.write(request)
        into.close()
        await into.wait_closed()
    while line := await out.readline():
        said.append(json.loads(line))


def _lines(said: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(line for each in said for line in each.get("found", ()))
