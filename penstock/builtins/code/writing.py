"""`write` and `edit`: write a whole file, or replace a text in it."""

from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.builtins.code.reading import PATH, WRITE, YES_OR_NO, of_project
from penstock.core.call_errors import not_utf8, tool_failure
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.resources.project.files import ProjectFiles, ProjectPath
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT
from penstock.tools.shell import ShellSettings

_MAX_LINES_NAMED = 20


class Edit(Struct, frozen=True, kw_only=True):
    """A text to replace, and its replacement."""

    old: str
    new: str
    everywhere: bool = False


def _check_bounds(input: Json, files: ProjectFiles, _: ShellSettings) -> None:
    files.seems_writable(input["path"])


@of_project(
    "Write a UTF-8 text file of the project, whole: at most 1 MiB. An existing file is "
    "overwritten; missing folders are created.",
    {"path": PATH, "content": TEXT},
    permission=WRITE,
    idempotent=True,
    check_bounds=_check_bounds,
)
async def write(input: Json, invocation: Invocation) -> Any:
    """Write a file."""
    files, named = invocation.project, input["path"]
    files.seems_writable(named)
    content = _encoded(input["content"], "/content", invocation)
    path, is_new = await invocation.edition.threads.run(partial(_write, files, named, content))
    return {"path": path.shown, "bytes": len(content), "created": is_new}


@of_project(
    "Replace a text in a file of the project. The file must contain oldText exactly once, with its "
    "blanks and line ends, or replaceAll is true; otherwise nothing is changed.",
    {
        "path": PATH,
        "oldText": {"type": "string", "minLength": 1},
        "newText": TEXT,
        "replaceAll?": YES_OR_NO,
    },
    permission=WRITE,
    check_bounds=_check_bounds,
)
async def edit(input: Json, invocation: Invocation) -> Any:
    """Replace a text in a file."""
    files, named = invocation.project, input["path"]
    files.seems_writable(named)
    for name in ("oldText", "newText"):
        _encoded(input[name], f"/{name}", invocation)
    change = Edit(
        old=input["oldText"],
        new=input["newText"],
        everywhere=input.get("replaceAll", False),
    )
    path, replaced = await invocation.edition.threads.run(partial(_edit, files, named, change))
    return {"path": path.shown, "replaced": replaced}


def _write(files: ProjectFiles, named: str, content: bytes) -> tuple[ProjectPath, bool]:
    path = files.writable(named)
    return path, files.write(path, content)


def _edit(files: ProjectFiles, named: str, change: Edit) -> tuple[ProjectPath, int]:
    path = files.writable(named)
    return path, files.change(path, partial(edited, path, change))


def edited(path: ProjectPath, change: Edit, content: bytes) -> tuple[bytes, int]:
    """Return the changed text of a file and the number of replacements."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(path.named, error) from None
    change = _as_in(text, change)
    count = text.count(change.old)
    if not count:
        raise tool_failure(
            "no_match", f"oldText is found 0 times in {path.named!r}; nothing was changed"
        )
    if count > 1 and not change.everywhere:
        raise tool_failure(
            "several_matches",
            f"oldText is found {count} times in {path.named!r}, at lines "
            f"{_places(text, change.old)}; nothing was changed. Give more of the text around the "
            "one that is meant, or replaceAll",
        )
    return text.replace(change.old, change.new).encode(), count


def _as_in(text: str, change: Edit) -> Edit:
    """Return the edit with the line ends of the file."""
    if change.old in text or "\r" in change.old or "\r\n" not in text:
        return change
    old = change.old.replace("\n", "\r\n")
    new = change.new.replace("\r\n", "\n").replace("\n", "\r\n")
    return replace(change, old=old, new=new)


def _places(text: str, old: str) -> str:
    """Return the numbers of the lines where a text begins."""
    lines: list[int] = []
    at, number = text.find(old), 1
    before = 0
    while at >= 0 and len(lines) <= _MAX_LINES_NAMED:
        number += text.count("\n", before, at)
        lines.append(number)
        before, at = at, text.find(old, at + len(old))
    named = ", ".join(map(str, lines[:_MAX_LINES_NAMED]))
    return f"{named}, …" if len(lines) > _MAX_LINES_NAMED else named


def _encoded(text: str, at: str, invocation: Invocation) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        problem = Problem(at, "is Unicode text without lone surrogates")
        raise invalid(invocation.spec.tool_id, [problem]) from None


TOOLS = (write, edit)
