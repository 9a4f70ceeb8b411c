"""Patterns for paths of a project: compared name by name, so that none takes long."""

import re
from collections.abc import Iterable
from functools import lru_cache

Name = re.Pattern[str] | None
"""What one name of a path has to look like; None is any number of names."""
_ANY = re.compile(r"[^/]+")
_MOST_WAYS = 16
"""A pattern is read in this many ways at most where `**` stands inside a name."""


class Glob:
    """A pattern that fits a whole path: `*` and `?` stay inside a name, `**` does not.

    One that ends with `/` means all below. An absolute one, or one with `..`, fits nothing.
    """

    __slots__ = ("_ways", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        names = text.removeprefix("./").split("/")
        if names[-1] == "":
            names[-1] = "**"
        is_odd = not text or names[0] == "" or ".." in names
        self._ways = () if is_odd else tuple(map(compiled, _ways(names)))

    def fits(self, path: str) -> bool:
        """Whether the path is one of those that are meant."""
        names = path.split("/")
        return any(len(way) in _reached(way, names) for way in self._ways)

    def may_fit_below(self, folder: str) -> bool:
        """Whether a path below the folder could be one of those; the empty text is the root."""
        names = folder.split("/") if folder else []
        return any(min(_reached(way, names), default=len(way)) < len(way) for way in self._ways)

    @property
    def expression(self) -> str:
        """The pattern as one regular expression."""
        return "|".join(map(_expression, self._ways)) or "(?!)"

    @property
    def literal(self) -> str:
        """The names before the first one that is a pattern."""
        names = self.text.removeprefix("./").rstrip("/").split("/")
        plain = next((at for at, name in enumerate(names) if {*"*?"} & {*name}), len(names))
        return "/".join(names[:plain]) if self._ways else ""


def union(globs: Iterable[Glob]) -> re.Pattern[str]:
    """Return what fits a whole path if one of the patterns does: thirty cost as much as one.

    For patterns of our own: unlike `Glob.fits`, many `**` in one may take long.
    """
    return re.compile("|".join(each.expression for each in globs) or "(?!)", re.DOTALL)


@lru_cache(maxsize=1024)
def glob(text: str) -> Glob:
    """Return the pattern, compiled once."""
    return Glob(text)


def name_pattern(text: str, *, classes: bool = False) -> re.Pattern[str]:
    """Return what fits one name: `*`, `?`, and if they are wanted classes and escapes, as in git.

    What stands between two stars is taken where it is found first, once and for all: otherwise
    many stars would take for ever.
    """
    first, *rest = _chunks(text, classes=classes)
    if not rest:
        return re.compile(first, re.DOTALL)
    between = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1])
    return re.compile(f"{first}{between}[^/]*{rest[-1]}", re.DOTALL)


def fits_somewhere(way: tuple[Name, ...], path: str) -> bool:
    """Whether a compiled pattern fits the whole path."""
    return len(way) in _reached(way, path.split("/"))


def compiled(names: list[str], *, classes: bool = False) -> tuple[Name, ...]:
    """Return a pattern, name by name; a last `**` stands for at least one name."""
    way: list[Name] = [
        None if name == "**" else name_pattern(name, classes=classes) for name in names
    ]
    if way and way[-1] is None:
        way.insert(-1, _ANY)
    return tuple(way)


def _ways(names: list[str]) -> list[list[str]]:
    """Return every way to read a pattern: `a**b` is in one name, or begins one and ends another."""
    ways: list[list[str]] = [[]]
    for name in names:
        before, found, after = name.partition("**")
        if not found or name == "**":
            ways = [[*way, name] for way in ways]
            continue
        after = after.replace("**", "*").lstrip("*")
        across = [f"{before}*", "**", f"*{after}"]
        both = [[f"{before}*{after}"], across]
        ways = [[*way, *more] for way in ways for more in both][:_MOST_WAYS]
    return ways


def _expression(way: tuple[Name, ...]) -> str:
    *names, last = way
    if last is None:  # `compiled` has put a name before it
        *names, last = names
        tail = "(?:/[^/]+)*"
    else:
        tail = ""
    above = ["(?:[^/]+/)*" if name is None else f"(?:{name.pattern})/" for name in names]
    return "".join([*above, f"(?:{last.pattern if last else '[^/]+'})", tail])


def _reached(way: tuple[Name, ...], names: list[str]) -> set[int]:
    """Return how far into the pattern the names may lead."""
    at = _passed({0}, way)
    for name in names:
        further = set()
        for place in at:
            if place == len(way):
                continue
            wanted = way[place]
            if wanted is None:
                further.add(place)
            elif wanted.fullmatch(name):
                further.add(place + 1)
        at = _passed(further, way)
    return at


def _passed(at: set[int], way: tuple[Name, ...]) -> set[int]:
    """Return the places, and those behind a `**` that stands for nothing."""
    for place in [*at]:
        while place < len(way) and way[place] is None:
            place += 1  # noqa: PLW2901  it goes on from there
            at.add(place)
    return at


def _chunks(text: str, *, classes: bool) -> list[str]:
    """Return the regular expressions of what stands between the stars."""
    chunks, at = [""], 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            chunks.append("")
            continue
        if char == "?":
            chunks[-1] += "[^/]"
        elif classes and char == "\\" and at < len(text):
            chunks[-1] += re.escape(text[at])
            at += 1
        elif classes and char == "[" and (end := _end_of_class(text, at)) > 0:
            chunks[-1] += _class(text[at:end])
            at = end + 1
        else:
            chunks[-1] += re.escape(char)
    return chunks


def _end_of_class(text: str, at: int) -> int:
    """Return where a class ends, -1 if nowhere: a bracket that comes first is one of its own."""
    return text.find("]", at + 1 + (text[at : at + 1] in {"!", "^"}))


def _class(inside: str) -> str:
    """Return a class of characters; one that is not well made fits none."""
    negated = inside[:1] in {"!", "^"}
    body = re.sub(r"([\[\\&~|])", r"\\\1", inside[1:] if negated else inside)
    body = f"\\{body}" if body[:1] in {"]", "^"} else body
    try:
        re.compile(f"[{body}]")
    except re.error:
        return "(?!)"
    return f"[{'^' if negated else ''}{body}]"
