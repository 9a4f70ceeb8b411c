"""Checks the handbooks of a project: each `SKILL.md` and the files that it lists."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.core.diagnostics import Diagnostic, Severity, nearest
from penstock.manifest.document import Document, SourceRange, YamlPath
from penstock.manifest.fields import described, quoted
from penstock.manifest.files import shown
from penstock.manifest.handbook import (
    FILE_BYTES,
    INDEX,
    NAMES,
    Index,
    find_folders,
    is_outside,
    read_index,
    read_text,
)
from penstock.manifest.paths import escape_of

_TOP = SourceRange(line=1, column=1)
_NO_TEXT = f"is not text of at most {FILE_BYTES} bytes"
_MAX_SEEN = 2000
"""At most this many files are compared to suggest a name."""


def check_handbooks(root: Path, folders: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield diagnostics about the handbooks in these folders; an earlier folder takes precedence.

    What is wrong and leaves a handbook usable is a warning.
    """
    known: dict[str, str] = {}
    for folder in folders:
        if escape := escape_of(root, folder):
            yield escape
            continue
        for path in (f"{folder}/{name}" for name in find_folders(root / folder)):
            escape = escape_of(root, path)
            yield from [escape] if escape else _check(root, path, known).problems


def _check(root: Path, folder: str, known: dict[str, str]) -> Document:
    head = Document(file=shown(f"{folder}/{INDEX}"))
    if is_outside(root / folder, INDEX):
        head.problem("path-escape", f"{INDEX} leads out of its folder through a symlink", _TOP)
        return head
    try:
        text = read_text(root / folder / INDEX)
    except FileNotFoundError:
        message = f"there is no {INDEX} here: the directory is not a handbook"
        head.problem("handbook-no-index", message, _TOP, severity=Severity.WARNING)
        return head
    except (OSError, ValueError):
        head.problem("file-unreadable", f"{INDEX} {_NO_TEXT}", _TOP)
        return head
    index = read_index(text, head.file)
    if index.is_open:
        message = 'the front matter is not closed: no second line "---"; it is read as text'
        index.head.problem("front-matter-open", message, _TOP, severity=Severity.WARNING)
    _check_head(index.head)
    _check_name(index.head, root / folder, known)
    _check_topics(index, root / folder)
    return index.head


def _check_head(head: Document) -> None:
    for key in ("name", "description"):
        if not isinstance(head.value.get(key, ""), str):
            _wrong(head, (key,), "text", head.value[key])
    files = head.value.get("files")
    if files is not None and not isinstance(files, str | list):
        _wrong(head, ("files",), "a list of file names", files)
    for number, item in enumerate(files if isinstance(files, list) else ()):
        is_named = isinstance(item, dict) and any(isinstance(item.get(key), str) for key in NAMES)
        if not (is_named or (isinstance(item, str) and item.strip())):
            _wrong(head, ("files", number), "a file name, or {name, description}", item)


def _check_name(head: Document, folder: Path, known: dict[str, str]) -> None:
    own = head.value.get("name")
    name = own if isinstance(own, str) and own.strip() else folder.name
    first = known.setdefault(name, head.file)
    if first != head.file:
        message = f"skill {quoted(name)} is hidden by the one in {first}"
        head.problem("hidden", message, head.keys.get(("name",), _TOP), severity=Severity.WARNING)


def _check_topics(index: Index, folder: Path) -> None:
    head, seen = index.head, dict[str, int]()
    if not index.topics:
        message = "no files are listed: skill_read can read nothing of this handbook"
        advice = "add files: with the names of its files"
        at = head.keys.get(("files",), _TOP)
        head.problem("handbook-no-files", message, at, advice, severity=Severity.WARNING)
    for topic in index.topics:
        file, warning = f"file {quoted(topic.name)}", Severity.WARNING
        if topic.name in seen:
            message = f"{file} is listed twice; first at line {seen[topic.name]}"
            head.problem("duplicate-file", message, topic.place, severity=warning)
            continue
        seen[topic.name] = topic.place.line
        fault, near = _fault(folder, topic.name)
        if fault:
            head.problem("handbook-file", f"{file} {fault}", topic.place, near, severity=warning)


def _fault(folder: Path, name: str) -> tuple[str, str | None]:
    """Return the problem of a listed file, and what to do about it."""
    try:
        if is_outside(folder, name):
            return "leaves the directory of the handbook", None
        read_text(folder / name)
    except FileNotFoundError:
        near = nearest(name, _files(folder))
        return "is listed but does not exist", near and f'did you mean "{near}"?'
    except (OSError, ValueError):
        return _NO_TEXT, None
    return "", None


def _files(folder: Path) -> list[str]:
    paths = (each for each, _ in zip(folder.rglob("*"), range(_MAX_SEEN), strict=False))
    names = [each.relative_to(folder).as_posix() for each in paths if each.is_file()]
    return sorted(shown(each) for each in names if each != INDEX)


def _wrong(head: Document, path: YamlPath, expected: str, value: Any) -> None:
    name = "".join(f"[{each}]" if isinstance(each, int) else each for each in path)
    message = f'"{name}" must be {expected}, found {described(value)}'
    head.problem("wrong-type", message, head.values.get(path, _TOP), severity=Severity.WARNING)
