"""Handbooks: directories with a `SKILL.md` that lists the files an agent may read one by one.

The wire word for one is `skill`; these are not the skills that bring tools (flows, section 5).
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.call_errors import ToolFailed
from penstock.core.text import cut, one_line
from penstock.manifest.loose import read_loose
from penstock.manifest.source import FENCE, Place, parse_yaml

INDEX = "SKILL.md"
FILE_BYTES = 256 * 1024
LISTED_CHARACTERS = 4_000
"""Of all handbooks together, in the description of the tool that reads them."""
MOST_HANDBOOKS = 2_000
_LIST = re.compile(r"^[ \t]*(?:\*\*)?files:(?:\*\*)?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_ITEM = re.compile(r"^[ \t]*[-*][ \t]+(.+)$")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
_TAIL = re.compile(r" - | — |: ")
_FENCES = 2
_NAMES = ("name", "file", "path")


@dataclass(frozen=True, slots=True)
class Topic:
    """A file of a handbook."""

    name: str
    """Relative to the handbook's directory."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handbook:
    """One handbook: its index, and the files that may be read."""

    name: str
    description: str
    folder: Path
    index: str
    """The whole of SKILL.md."""
    topics: Sequence[Topic] = ()

    @property
    def files(self) -> list[str]:
        """The names of its files."""
        return [topic.name for topic in self.topics]


class Handbooks:
    """Handbooks by name; of two with one name the first one counts."""

    def __init__(self, found: Iterable[Handbook] = ()) -> None:
        self._by_name: dict[str, Handbook] = {}
        for each in found:
            self._by_name.setdefault(each.name, each)

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
        found = self._by_name.get(name)
        if found is None:
            names = ", ".join(self.names) or "none"
            raise ToolFailed(f'Skill "{name}" not found. Available: {names}.')
        if file not in found.files:
            listed = ", ".join(found.files) or "none"
            raise ToolFailed(f'File "{file}" is not listed in skill "{name}". Listed: {listed}.')
        return _text_of(found, file)

    def listed(self) -> str:
        """Return the handbooks with their descriptions and files, for people and models."""
        lines = []
        for name in self.names:
            book = self._by_name[name]
            files = ", ".join(book.files) or "no files"
            about = f": {one_line(book.description)}" if book.description else ""
            lines.append(f"- {name}{about} ({files})")
        return cut("\n".join(lines), LISTED_CHARACTERS)


def find_handbooks(folders: Iterable[Path]) -> Handbooks:
    """Read the handbooks that lie in some directories; an earlier directory comes first."""
    return Handbooks(book for folder in folders for book in _in_folder(folder))


def read_handbook(folder: Path) -> Handbook | None:
    """Read one handbook; None when its SKILL.md cannot be read as text."""
    try:
        index = _read(folder / INDEX)
    except (OSError, ValueError):
        return None
    head, body = _parted(index)
    name, about = head.get("name"), head.get("description")
    given = head.get("files")
    topics = _from_body(body) if given is None else _from_head(given)
    return Handbook(
        name=name if isinstance(name, str) and name.strip() else folder.name,
        description=about if isinstance(about, str) else "",
        folder=folder,
        index=index,
        topics=tuple(topics),
    )


def _in_folder(folder: Path) -> list[Handbook]:
    try:
        names = sorted(each.name for each in os.scandir(folder) if each.is_dir())
    except OSError:
        return []
    books = (read_handbook(folder / name) for name in names[:MOST_HANDBOOKS])
    return [book for book in books if book is not None]


def _parted(index: str) -> tuple[Mapping[str, Any], str]:
    """Return the front matter, read as YAML or else as it was meant, and what follows it."""
    lines = index.lstrip("\ufeff\r\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    if len(fences) < _FENCES or fences[0] != 0:
        return {}, index
    head, body = "\n".join(lines[1 : fences[1]]), "\n".join(lines[fences[1] + 1 :])
    document = parse_yaml(head, INDEX)
    if document.problems or not isinstance(document.value, dict):
        document = read_loose(head, INDEX, first_line=1, failed=Place(line=1, column=1))
    return document.value, body


def _from_head(given: Any) -> list[Topic]:
    """Read `files:` of the front matter: a list of names or mappings, or texts parted by commas."""
    items = given.split(",") if isinstance(given, str) else given
    topics = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, str) and item.strip():
            topics.append(Topic(item.strip()))
        elif isinstance(item, dict):
            name = next((item[key] for key in _NAMES if isinstance(item.get(key), str)), None)
            about = item.get("description")
            if name:
                topics.append(Topic(name, about if isinstance(about, str) else ""))
    return topics


def _from_body(body: str) -> list[Topic]:
    """Read a line `files:` and the items below it."""
    found = _LIST.search(body)
    topics = []
    for line in body[found.end() :].splitlines()[1:] if found else []:
        item = _ITEM.match(line)
        if item is None:
            if line.strip():
                break
            continue
        text = _LINK.sub(lambda link: link[2] or link[1], item[1]).replace("`", "").strip()
        name, *about = _TAIL.split(text, maxsplit=1)
        topics.append(Topic(name.strip(), "".join(about).strip()))
    return topics


def _text_of(book: Handbook, file: str) -> str:
    said = f'File "{file}" of skill "{book.name}"'
    path = book.folder / file
    inside = book.folder.resolve()
    try:
        if ".." in Path(file).parts or not path.resolve().is_relative_to(inside):
            raise ToolFailed(f"{said} leaves its directory.")
        return _read(path)
    except FileNotFoundError:
        raise ToolFailed(f"{said} is listed but does not exist.") from None
    except (OSError, ValueError):
        raise ToolFailed(f"{said} is not text of at most {FILE_BYTES} bytes.") from None


def _read(path: Path) -> str:
    """Return a text file. Raises OSError, or ValueError when it is none, or too large."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path.name} is not a file")
    with path.open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES or b"\0" in content:
        raise ValueError(f"{path.name} is not text of at most {FILE_BYTES} bytes")
    return content.decode()
