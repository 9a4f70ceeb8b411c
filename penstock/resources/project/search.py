"""Finds files of a project, and lines in them, for one agent.

`walk` yields the files that the agent may read, sorted by path, without those that `.gitignore`
files exclude. `search` looks for a pattern in such files. It runs `matching.py` in a process of its
own, because `re` cannot be interrupted: a pattern that backtracks forever is stopped with its
process when its time is up, and the hits so far are returned.

The rules of `.gitignore` are git's, compiled with `globs.py`, so a path is matched name by name and
no rule takes long. `pathspec` was tried: see docs/decisions/038-hand-written-parts.md.
Proof: tests/resources/project/test_search.py.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.core.exhaustion import raise_exhaustion, starting_process
from penstock.manifest.files import leads_to_folder
from penstock.resources.project.files import ProjectFiles, ProjectPath
from penstock.resources.project.globs import Name, compiled, fits_somewhere
from penstock.resources.project.opening import open_to_read

SECONDS = 10.0
IGNORE_FILE = ".gitignore"
_NEVER = ".git"
_MAX_BYTES = 1 << 20
"""Size limit of an ignore file."""
_PROGRAM = ("-I", "-m", "penstock.resources.project.matching")
_MAX_LINE = 64 << 20


class FoundFile(Struct, frozen=True, kw_only=True):
    """A file: its path in the walk, and the path of the file that it leads to."""

    path: str
    real: str


class FoundName(Struct, frozen=True, kw_only=True):
    """One entry of a folder."""

    name: str
    is_folder: bool


class IgnoreRule(Struct, frozen=True, kw_only=True):
    """One line of an ignore file: it excludes the paths that it matches, or includes them again."""

    way: tuple[Name, ...]
    leaves_out: bool
    folders_only: bool


class IgnoreFile(Struct, frozen=True, kw_only=True):
    """The rules of one file, for the paths below its folder."""

    folder: str
    rules: tuple[IgnoreRule, ...]

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the path is excluded; None if no rule matches it. The last match decides."""
        below = path[len(self.folder) + 1 :] if self.folder else path
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and fits_somewhere(rule.way, below):
                return rule.leaves_out
        return None


class SearchQuery(Struct, frozen=True, kw_only=True):
    """A pattern, and how to search for it."""

    pattern: str
    ignore_case: bool = False
    is_literal: bool = False
    context: int = 0
    """Lines shown before and after each match."""
    limit: int = 100
    """Most lines that match."""


class SearchHits(Struct, frozen=True, kw_only=True):
    """The result of a search."""

    lines: tuple[str, ...]
    is_cut: bool = False
    """More lines match than `limit`."""
    is_late: bool = False
    """The time was over before every file was searched."""
    bad_pattern: str = ""
    """The error in the pattern, from `re`."""


def walk(
    files: ProjectFiles, start: ProjectPath, *, with_ignored: bool = False
) -> Iterator[FoundFile]:
    """Yield the files that the agent may read, by name; links to folders are not followed."""
    if not files.whole(start).is_dir():
        files.check_plain(start)
        yield FoundFile(path=start.real, real=start.real)
        return
    above = None if with_ignored else _ignoring(files, start.real)
    yield from _below(files, start.real, above)


def has_readable(files: ProjectFiles, start: ProjectPath) -> bool:
    """Whether there is any file below that the agent may read."""
    return next(walk(files, start, with_ignored=True), None) is not None


def entries(files: ProjectFiles, folder: ProjectPath) -> Iterator[FoundName]:
    """Yield the entries of a folder that the agent may read, by name."""
    for entry in _listed(files, folder.real):
        path = _joined(folder.real, entry.name)
        real = files.real_of(entry.path) if entry.is_symlink() else path
        if real is None or files.is_hidden(path):
            continue
        is_folder = leads_to_folder(entry)
        is_seen = files.access.may_read_below(real) if is_folder else files.sees(real)
        if is_seen and not _is_twin(files, entry):
            yield FoundName(name=entry.name, is_folder=is_folder)


async def search(
    root: Path, files: Sequence[FoundFile], query: SearchQuery, *, seconds: float = SECONDS
) -> SearchHits:
    """Return the lines of files that match, as `path:line: text`."""
    with starting_process():
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={},
            limit=_MAX_LINE,
        )
    answers: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(seconds):
            await _exchange(process, _request(root, files, query), answers)
            await process.wait()
    except TimeoutError:
        return SearchHits(lines=_lines(answers), is_late=True)
    finally:
        if process.returncode is None:
            _kill(process.pid)
            await process.wait()
    end = answers[-1] if answers else {}
    return SearchHits(
        lines=_lines(answers),
        is_cut=end.get("cut", False),
        bad_pattern=end.get("bad_pattern", ""),
    )


def _kill(pid: int) -> None:
    """Kill the process.

    `Process.kill` polls it first, and may collect the exit code before
    asyncio does, which then writes "Unknown child process pid" to stderr (CPython gh-87744).
    """
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _request(root: Path, files: Sequence[FoundFile], query: SearchQuery) -> bytes:
    return json.dumps(
        {
            "root": str(root),
            "files": [[file.path, file.real] for file in files],
            "pattern": query.pattern,
            "ignore_case": query.ignore_case,
            "literal": query.is_literal,
            "context": query.context,
            "limit": query.limit,
        }
    ).encode()


async def _exchange(
    process: asyncio.subprocess.Process, request: bytes, answers: list[dict[str, Any]]
) -> None:
    """Send the request and collect the answers: those before a timeout are kept."""
    into, out = process.stdin, process.stdout
    if into is None or out is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        into.write(request)
        into.close()
        await into.wait_closed()
    while line := await out.readline():
        answers.append(json.loads(line))


def _lines(answers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(line for answer in answers for line in answer.get("found", ()))


# ---- the walk ----


def _ignoring(files: ProjectFiles, folder: str) -> list[IgnoreFile]:
    """Return the ignore files of the folders above."""
    names = folder.split("/") if folder else []
    above = ["/".join(names[:count]) for count in range(len(names))]
    return [file for path in above if (file := read_ignore_file(files.root, path))]


def _below(
    files: ProjectFiles, folder: str, ignoring: list[IgnoreFile] | None
) -> Iterator[FoundFile]:
    """Yield the files below. No recursion: folders may be nested deeper than Python's stack."""
    stack = [_folder(files, folder, ignoring)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
        elif isinstance(entry, FoundFile):
            yield entry
        else:
            stack.append(_folder(files, *entry))


def _folder(
    files: ProjectFiles, folder: str, ignoring: list[IgnoreFile] | None
) -> Iterator[FoundFile | tuple[str, list[IgnoreFile] | None]]:
    """Yield the files of a folder, and its subfolders with the rules that hold there."""
    listed, rules = _listed(files, folder), ignoring
    if rules is not None and any(entry.name == IGNORE_FILE for entry in listed):
        here = read_ignore_file(files.root, folder)
        rules = [*rules, here] if here else rules
    for entry in listed:
        path = _joined(folder, entry.name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules and is_left_out(rules, path, is_folder=is_folder):
            continue
        if is_folder:
            if entry.name != _NEVER and files.access.may_read_below(path):
                yield path, rules
            continue
        real = files.real_of(entry.path) if entry.is_symlink() else path
        if real and _leads_to_file(entry) and files.sees(real):
            if (real != path and files.is_hidden(path)) or _is_twin(files, entry):
                continue
            yield FoundFile(path=path, real=real)


def _listed(files: ProjectFiles, folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder as their paths are sorted; none if it cannot be listed."""
    try:
        with os.scandir(files.root / folder) as listed:
            return sorted(filter(_is_text, listed), key=_place)
    except OSError as error:
        raise_exhaustion(error)
        return []


def _is_twin(files: ProjectFiles, entry: os.DirEntry[str]) -> bool:
    try:
        return files.is_twin(entry.stat())
    except OSError:
        return False


def _leads_to_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_text(entry: os.DirEntry[str]) -> bool:
    """Whether the name is Unicode text; another one cannot be shown to a model."""
    name = entry.name
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _place(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


# ---- .gitignore ----


def read_ignore_file(root: Path, folder: str) -> IgnoreFile | None:
    """Return the rules of a folder's own file; None if there is none that can be read."""
    path = f"{folder}/{IGNORE_FILE}" if folder else IGNORE_FILE
    try:
        with open_to_read(root, path) as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    rules = tuple(rule for line in text.split("\n") if (rule := read_rule(line)))
    return IgnoreFile(folder=folder, rules=rules)


def read_rule(line: str) -> IgnoreRule | None:
    """Return the rule of a line; None for a comment, an empty line, or one that matches nothing."""
    text = _without_blanks(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    leaves_out = not text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    names = text.removesuffix("/").split("/")
    if len(names) == 1:
        names = ["**", *names]
    elif names[0] == "":
        names = names[1:]
    if "" in names:
        return None
    way = compiled([_plain(name) for name in names], classes=True)
    return IgnoreRule(way=way, leaves_out=leaves_out, folders_only=folders_only)


def is_left_out(files: list[IgnoreFile], path: str, *, is_folder: bool) -> bool:
    """Whether the files of the folders above exclude a path; the innermost match decides."""
    for file in reversed(files):
        verdict = file.says(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _without_blanks(line: str) -> str:
    """Return the line without trailing blanks, but for one after a backslash."""
    text = line.rstrip(" \t")
    return f"{text} " if text.endswith("\\") and len(text) < len(line) else text


def _plain(name: str) -> str:
    """Return a name with `**` inside it as `*`, which is what it means there."""
    while name != "**" and "**" in name:
        name = name.replace("**", "*")
    return name
