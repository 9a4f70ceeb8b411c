"""Handbooks: directories with a `SKILL.md` that lists the files an agent may read one by one.

The wire word for one is `skill`; these are not the skills that bring tools.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from penstock.core.call_errors import ToolFailed
from penstock.core.text import cut, one_line
from penstock.manifest.document import Document, SourceRange, YamlPath
from penstock.manifest.files import UnreadReason, leads_to_folder, read_bounded
from penstock.manifest.front_matter import read_loose
from penstock.manifest.paths import escape_of
from penstock.manifest.yaml_document import FENCE, parse_yaml

INDEX = "SKILL.md"
FILE_BYTES = 256 * 1024
LISTED_CHARACTERS = 4_000
"""Characters of all handbooks in the description of the tool that reads them."""
MAX_HANDBOOKS = 2_000
_LIST = re.compile(r"^[ \t]*(?:\*\*)?files:(?:\*\*)?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_ITEM = re.compile(r"^[ \t]*[-*][ \t]+(.+)$")
_WRAPPED = re.compile(r"^[ \t]+\S")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()]*)\)")
_TAIL = re.compile(r" - | — |: ")
_TOP = SourceRange(line=1, column=1)
NAMES = ("name", "file", "path")
"""Keys of an item of `files:` that may hold the file name; the first present one is used."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A file of a handbook."""

    name: str
    """Relative to the handbook's directory."""
    description: str = ""
    place: SourceRange = field(default=_TOP, compare=False)
    """Position of its name."""


class Index(Struct, frozen=True, kw_only=True):
    """A parsed `SKILL.md`."""

    head: Document
    """The front matter; an empty mapping if there is none."""
    is_open: bool = False
    """The closing line of the front matter is missing, so there are no settings."""
    topics: Sequence[Topic] = ()


class Handbook(Struct, frozen=True, kw_only=True):
    """One handbook: its index and its readable files."""

    name: str
    description: str
    folder: Path
    index: str
    """The complete text of SKILL.md."""
    topics: Sequence[Topic] = ()

    @property
    def files(self) -> list[str]:
        """The names of its files."""
        return [topic.name for topic in self.topics]


class HandbookCatalog:
    """Handbooks by name; of two with the same name the first one is used."""

    def __init__(self, handbooks: Iterable[Handbook] = ()) -> None:
        self._by_name: dict[str, Handbook] = {}
        for handbook in handbooks:
            self._by_name.setdefault(handbook.name, handbook)

    def __iter__(self) -> Iterator[Handbook]:
        """Yield the handbooks."""
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._by_name)

    def get(self, name: str) -> Handbook | None:
        """Return a handbook."""
        return self._by_name.get(name)

    def read(self, name: str, file: str) -> str:
        """Return the text of a listed file.

        Raises ToolFailed with the sentence that a model is to read.
        """
        handbook = self._by_name.get(name)
        if handbook is None:
            names = ", ".join(self.names) or "none"
            raise ToolFailed(f'Skill "{name}" not found. Available: {names}.')
        if file not in handbook.files:
            listed = ", ".join(handbook.files) or "none"
            raise ToolFailed(f'File "{file}" is not listed in skill "{name}". Listed: {listed}.')
        return _text_of(handbook, file)

    def listed(self) -> str:
        """Return the list of handbooks, with descriptions and files."""
        lines = []
        for name in self.names:
            book = self._by_name[name]
            files = ", ".join(book.files) or "no files"
            about = f": {one_line(book.description)}" if book.description else ""
            lines.append(f"- {name}{about} ({files})")
        return cut("\n".join(lines), LISTED_CHARACTERS)


def find_handbooks(folders: Iterable[Path], project: Path | None = None) -> HandbookCatalog:
    """Read the handbooks in these directories; an earlier directory takes precedence.

    None of a project leads out of it.
    """
    return HandbookCatalog(book for folder in folders for book in _in_folder(folder, project))


def read_handbook(folder: Path) -> Handbook | None:
    """Read one handbook; None if its SKILL.md is not readable text or is outside its folder."""
    if is_outside(folder, INDEX):
        return None
    try:
        text = read_text(folder / INDEX)
    except (OSError, ValueError):
        return None
    index = read_index(text)
    name, about = index.head.value.get("name"), index.head.value.get("description")
    return Handbook(
        name=name if isinstance(name, str) and name.strip() else folder.name,
        description=about if isinstance(about, str) else "",
        folder=folder,
        index=text,
        topics=index.topics,
    )


def read_index(text: str, file: str = INDEX) -> Index:
    """Parse a `SKILL.md`. Never raises."""
    own = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = own.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip("\r")), 0)
    fences = (number for number, line in enumerate(lines) if line.rstrip() == FENCE)
    begin, end = next(fences, None), next(fences, None)
    head = Document(file=file, value={}, is_read=True)
    if begin != first or end is None:
        return Index(head=head, is_open=begin == first, topics=tuple(_from_body(own, 1)))
    head = _head("\n".join(lines[begin + 1 : end]), file, begin + 2)
    is_listed = head.value.get("files") is not None
    body = "\n".join(lines[end + 1 :])
    topics = _from_head(head) if is_listed else _from_body(body, end + 2)
    return Index(head=head, topics=tuple(topics))


def find_folders(folder: Path) -> list[str]:
    """Return the names of the directories that may be handbooks, in order."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if leads_to_folder(each))
    except OSError:
        return []
    return names[:MAX_HANDBOOKS]


def read_text(path: Path) -> str:
    """Return a text file. Raises OSError, or ValueError if it is not text or too large."""
    content = read_bounded(path, FILE_BYTES)
    if isinstance(content, UnreadReason):
        raise FileNotFoundError(path) if content.is_missing else ValueError(content.message)
    if b"\0" in content:
        raise ValueError(f"{path.name} is not text of at most {FILE_BYTES} bytes")
    return content.decode()


def is_outside(folder: Path, file: str) -> bool:
    """Return whether a file is outside the handbook, by its path or a symlink."""
    path, inside = os.path.realpath(folder / file), os.path.realpath(folder)
    return ".." in Path(file).parts or not Path(path).is_relative_to(inside)


def _in_folder(folder: Path, project: Path | None) -> list[Handbook]:
    places = (folder / name for name in find_folders(folder))
    books = (read_handbook(each) for each in places if not _leads_out(each, project))
    return [book for book in books if book is not None]


def _leads_out(folder: Path, project: Path | None) -> bool:
    if project is None or not folder.is_relative_to(project):
        return False
    return escape_of(project, folder.relative_to(project).as_posix()) is not None


def _head(text: str, file: str, first_line: int) -> Document:
    """Return the settings, parsed as YAML or else line by line."""
    document = parse_yaml(text, file, first_line=first_line)
    if document.value is None and document.is_read and not document.problems:
        document.value = {}
    if document.problems or not isinstance(document.value, dict):
        at = document.values.get((), SourceRange(line=first_line, column=1))
        for problem in document.problems[:1]:
            at = SourceRange(
                line=problem.line, column=problem.column, end_column=problem.end_column
            )
        document = read_loose(text, file, first_line=first_line, failed=at)
    return document


def _from_head(head: Document) -> Iterator[Topic]:
    """Read `files:`: a list of names or mappings, or a string with commas."""
    files = head.value["files"]
    path: YamlPath = ("files",)
    items = files.split(",") if isinstance(files, str) else files
    for number, item in enumerate(items if isinstance(items, list) else []):
        at = path if isinstance(files, str) else (*path, number)
        if isinstance(item, str) and item.strip():
            yield Topic(item.strip(), place=head.values.get(at, _TOP))
        elif isinstance(item, dict):
            key = next((each for each in NAMES if isinstance(item.get(each), str)), None)
            about = item.get("description")
            if key and item[key]:
                place = head.values.get((*at, key), _TOP)
                yield Topic(item[key], about if isinstance(about, str) else "", place)


def _from_body(body: str, first_line: int) -> Iterator[Topic]:
    """Read a line `files:` and the items below it."""
    heading = _LIST.search(body)
    if heading is None:
        return
    begin = first_line + body.count("\n", 0, heading.end()) + 1
    lines = body[heading.end() :].split("\n")[1:]
    for at, written in enumerate(lines):
        item = _ITEM.match(written)
        if item is None:
            if written.strip() and not _is_wrapped(lines, at):
                break
            continue
        name, *about = _TAIL.split(_plain(item[1]), maxsplit=1)
        wrapped = takewhile(partial(_is_wrapped, lines), range(at + 1, len(lines)))
        about += (_plain(lines[each]) for each in wrapped)
        place = SourceRange(line=begin + at, column=item.start(1) + 1, end_column=item.end(1) + 1)
        yield Topic(name.strip(), " ".join(about).strip(), place)


def _plain(written: str) -> str:
    return _LINK.sub(lambda link: link[2] or link[1], written).replace("`", "").strip()


def _is_wrapped(lines: Sequence[str], at: int) -> bool:
    """Return whether a line continues the item above: the next line, indented."""
    is_behind_text = at > 0 and bool(lines[at - 1].strip())
    return is_behind_text and bool(_WRAPPED.match(lines[at])) and not _ITEM.match(lines[at])


def _text_of(book: Handbook, file: str) -> str:
    message = f'File "{file}" of skill "{book.name}"'
    try:
        if is_outside(book.folder, file):
            raise ToolFailed(f"{message} leaves its directory.")
        return read_text(book.folder / file)
    except FileNotFoundError:
        raise ToolFailed(f"{message} is listed but does not exist.") from None
    except (OSError, ValueError):
        raise ToolFailed(f"{message} is not text of at most {FILE_BYTES} bytes.") from None
