"""What `.gitignore` files leave out, as git reads them."""

from pathlib import Path

from msgspec import Struct

from penstock.resources.project.globs import Name, compiled, fits_somewhere
from penstock.resources.project.opening import open_to_read

IGNORE_FILE = ".gitignore"
_MOST_BYTES = 1 << 20


class IgnoreRule(Struct, frozen=True, kw_only=True):
    """One line: what it fits is left out, or taken back in."""

    way: tuple[Name, ...]
    leaves_out: bool
    folders_only: bool


class IgnoreFile(Struct, frozen=True, kw_only=True):
    """The lines of one file, for what lies below its folder."""

    folder: str
    rules: tuple[IgnoreRule, ...]

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the path is left out; None if no line is about it. The last one counts."""
        below = path[len(self.folder) + 1 :] if self.folder else path
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and fits_somewhere(rule.way, below):
                return rule.leaves_out
        return None


def read_ignore_file(root: Path, folder: str) -> IgnoreFile | None:
    """Return what the file of a folder says, if there is one that can be read."""
    path = f"{folder}/{IGNORE_FILE}" if folder else IGNORE_FILE
    try:
        with open_to_read(root, path) as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    rules = tuple(rule for line in text.split("\n") if (rule := read_rule(line)))
    return IgnoreFile(folder=folder, rules=rules)


def read_rule(line: str) -> IgnoreRule | None:
    """Return what a line says; None for a comment, an empty line, one that fits nothing."""
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
    """Whether the files of the folders above leave a path out; the innermost counts."""
    for file in reversed(files):
        said = file.says(path, is_folder=is_folder)
        if said is not None:
            return said
    return False


def _without_blanks(line: str) -> str:
    """Return the line without blanks at its end, but for one behind a backslash."""
    text = line.rstrip(" \t")
    return f"{text} " if text.endswith("\\") and len(text) < len(line) else text


def _plain(name: str) -> str:
    """Two stars inside a name are one."""
    while name != "**" and "**" in name:
        name = name.replace("**", "*")
    return name
