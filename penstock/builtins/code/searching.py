"""`grep` and `find`: lines and files of the project, without ignored files (`.gitignore`)."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.builtins.code.reading import FOLDER, YES_OR_NO, check_bounds_below, of_project
from penstock.core.call_errors import not_a_directory
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.resources.project.files import ProjectFiles, ProjectPath
from penstock.resources.project.globs import glob as glob_of
from penstock.resources.project.search import (
    SECONDS,
    FoundFile,
    SearchHits,
    SearchQuery,
    has_readable,
    search,
    walk,
)
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import whole

MAX_FILES = 100_000
"""`grep` searches at most this many files."""
MAX_MATCHES = 100
MAX_PATHS = 1000
_PATTERN: Json = {"type": "string", "minLength": 1, "maxLength": 1000}


class SearchedFiles(Struct, frozen=True, kw_only=True):
    """The files to search."""

    files: tuple[FoundFile, ...]
    is_cut: bool


@of_project(
    "Search lines of the project's text files with a regular expression: `path:line: text`, and "
    "around them `path-line- text` with context. Files that .gitignore excludes are not searched.",
    {
        "pattern": {**_PATTERN, "description": "A regular expression (Python's), for one line"},
        "path?": FOLDER,
        "glob?": {**_PATTERN, "description": "Only files like this: *.py, src/**/*.ts"},
        "ignoreCase?": YES_OR_NO,
        "literal?": {**YES_OR_NO, "description": "The pattern is plain text"},
        "context?": whole(0, 10, "Lines shown around each match"),
        "limit?": whole(1, 1000, "How many matches"),
    },
    check_bounds=check_bounds_below,
)
async def grep(input: Json, invocation: Invocation) -> Any:
    """Return the lines that match."""
    files, threads = invocation.project, invocation.edition.threads
    named, names = input.get("path", "."), input.get("glob")
    searched: SearchedFiles = await threads.run(partial(_searched, files, named, names))
    query = SearchQuery(
        pattern=input["pattern"],
        ignore_case=input.get("ignoreCase", False),
        is_literal=input.get("literal", False),
        context=input.get("context", 0),
        limit=input.get("limit", MAX_MATCHES),
    )
    slot = await invocation.project_folder.searches.acquire(invocation.ledger.task.task_id)
    try:
        hits = await search(files.root, searched.files, query)
    finally:
        slot.release()
    if hits.bad_pattern:
        problem = Problem("/pattern", f"is a regular expression: {hits.bad_pattern}")
        raise invalid(invocation.spec.tool_id, [problem])
    return "\n".join([*hits.lines, *_notes(hits, query, searched)])


@of_project(
    "Find files of the project by a pattern: *.py fits names at any depth, src/**/*.ts fits paths "
    "from where the search begins. Files that .gitignore excludes are not found.",
    {"pattern": _PATTERN, "path?": FOLDER, "limit?": whole(1, 10_000, "How many paths")},
    check_bounds=check_bounds_below,
)
async def find(input: Json, invocation: Invocation) -> Any:
    """Return the matching paths, sorted."""
    files, limit = invocation.project, input.get("limit", MAX_PATHS)
    named, pattern = input.get("path", "."), input["pattern"]
    paths = await invocation.edition.threads.run(partial(_paths, files, named, pattern, limit))
    more = [f"[the first {limit} files; there are more]"] if len(paths) > limit else []
    return "\n".join([*paths[:limit], *more])


def _searched(files: ProjectFiles, named: str, names: str | None) -> SearchedFiles:
    start = files.start(named)
    fitting = _fitting(files, start, names)
    matching = tuple(islice(fitting, MAX_FILES + 1))
    _check(files, start, is_empty=not matching)
    return SearchedFiles(files=matching[:MAX_FILES], is_cut=len(matching) > MAX_FILES)


def _paths(files: ProjectFiles, named: str, pattern: str, limit: int) -> list[str]:
    start = files.start(named)
    if not files.whole(start).is_dir():
        raise not_a_directory(named)
    paths = [each.path for each in islice(_fitting(files, start, pattern), limit + 1)]
    _check(files, start, is_empty=not paths)
    return paths


def _fitting(files: ProjectFiles, start: ProjectPath, names: str | None) -> Iterator[FoundFile]:
    """Yield the files that match a pattern: without `/` it matches names, else paths."""
    if names is None:
        yield from walk(files, start)
        return
    above = len(start.real) + 1 if start.real and files.whole(start).is_dir() else 0
    pattern = glob_of(names if "/" in names else f"**/{names}")
    for entry in walk(files, start):
        if pattern.fits(entry.path[above:]):
            yield entry


def _check(files: ProjectFiles, start: ProjectPath, *, is_empty: bool) -> None:
    """Raise NotPermitted for a folder in which the agent may read nothing."""
    if is_empty and files.access.limits_reads and not has_readable(files, start):
        files.refuse(start)


def _notes(hits: SearchHits, query: SearchQuery, searched: SearchedFiles) -> Iterator[str]:
    if hits.is_cut:
        yield f"[the first {query.limit} matches; there are more]"
    if hits.is_late:
        yield f"[stopped after {SECONDS:g} s; narrow the pattern or the path]"
    if searched.is_cut:
        yield f"[only the first {MAX_FILES} files were searched; narrow the path]"


glob = replace(find, spec=replace(find.spec, tool_id="glob", is_offered=False))
"""An alias of `find`, offered to agents that declare this name."""
TOOLS = (grep, find, glob)
