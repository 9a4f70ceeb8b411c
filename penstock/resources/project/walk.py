"""The files below a folder of a project, in order, without what is ignored or may not be read."""

import os
from collections.abc import Iterator

from msgspec import Struct

from penstock.core.exhaustion import raise_exhaustion
from penstock.manifest.files import leads_to_folder
from penstock.resources.project.files import ProjectFiles, ProjectPath
from penstock.resources.project.ignore import IGNORE_FILE, IgnoreFile, is_left_out, read_ignore_file

_NEVER = ".git"


class FoundFile(Struct, frozen=True, kw_only=True):
    """One file: how it is called, and the file that this leads to."""

    path: str
    real: str


class FoundName(Struct, frozen=True, kw_only=True):
    """One entry of a folder."""

    name: str
    is_folder: bool


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
    """Yield what stands in a folder, by name, as far as the agent may read it."""
    for entry in _listed(files, folder.real):
        path = _joined(folder.real, entry.name)
        real = files.real_of(entry.path) if entry.is_symlink() else path
        if real is None or files.is_hidden(path):
            continue
        is_folder = leads_to_folder(entry)
        is_seen = files.access.may_read_below(real) if is_folder else files.sees(real)
        if is_seen and not _is_twin(files, entry):
            yield FoundName(name=entry.name, is_folder=is_folder)


def _ignoring(files: ProjectFiles, folder: str) -> list[IgnoreFile]:
    """Return the ignore files of the folders above."""
    names = folder.split("/") if folder else []
    above = ["/".join(names[:count]) for count in range(len(names))]
    return [found for each in above if (found := read_ignore_file(files.root, each))]


def _below(
    files: ProjectFiles, folder: str, ignoring: list[IgnoreFile] | None
) -> Iterator[FoundFile]:
    """Yield what is below. Folders may be nested deeper than calls can be."""
    stack = [_folder(files, folder, ignoring)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        elif isinstance(found, FoundFile):
            yield found
        else:
            stack.append(_folder(files, *found))


def _folder(
    files: ProjectFiles, folder: str, ignoring: list[IgnoreFile] | None
) -> Iterator[FoundFile | tuple[str, list[IgnoreFile] | None]]:
    """Yield the files of a folder, and the folders in it with what is ignored there."""
    listed, rules = _listed(files, folder), ignoring
    if rules is not None and any(entry.name == IGNORE_FILE for entry in listed):
        own = read_ignore_file(files.root, folder)
        rules = [*rules, own] if own else rules
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
        with os.scandir(files.root / folder) as found:
            return sorted(filter(_has_words, found), key=_place)
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


def _has_words(entry: os.DirEntry[str]) -> bool:
    """Whether the name is text: others could be told to nobody."""
    name = entry.name
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _place(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
