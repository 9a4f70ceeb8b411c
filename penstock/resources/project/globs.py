"""Patterns for paths of a project, and the folded form of a path that protection compares.

A pattern is matched name by name: a set of positions in the pattern advances with each name of the
path, so the time is bounded by their product, however many `**` the pattern has. One regular
expression for a path backtracks: `pathspec` took over 20 s for a rule with 14 stars (decision 038).
Inside a name, atomic groups keep many `*` fast.
Proof: tests/resources/project/test_globs.py.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

Name = re.Pattern[str] | None
"""The pattern of one name in a path; None is `**`, any number of names."""
_ANY = re.compile(r"[^/]+")
_MAX_WAYS = 16
"""Maximum number of ways in which a pattern is read: a `**` inside a name doubles them."""


class Glob:
    """A pattern for a whole path: `*` and `?` stay inside a name, `**` matches across names.

    With `/` at its end it matches everything below. An absolute one, or one with `..`, matches
    nothing.
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
        """Whether the pattern matches the path."""
        names = path.split("/")
        return any(len(way) in _reached(way, names) for way in self._ways)

    def may_fit_below(self, folder: str) -> bool:
        """Whether a path below the folder could match; the empty text is the root."""
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
        plain = next((i for i, name in enumerate(names) if {*"*?"} & {*name}), len(names))
        return "/".join(names[:plain]) if self._ways else ""


def union(globs: Iterable[Glob]) -> re.Pattern[str]:
    """Return one regular expression for all patterns: thirty cost as much as one.

    Only for patterns of this package: unlike `Glob.fits`, one with many `**` may take long.
    """
    return re.compile("|".join(each.expression for each in globs) or "(?!)", re.DOTALL)


@lru_cache(maxsize=1024)
def glob(text: str) -> Glob:
    """Return the pattern, compiled once."""
    return Glob(text)


def name_pattern(text: str, *, classes: bool = False) -> re.Pattern[str]:
    """Compile the pattern of one name: `*`, `?`, and with `classes` also `[...]` and escapes.

    The text between two stars is matched at its first place, in an atomic group. That is enough,
    because a later place leaves less for the rest, and it avoids exponential backtracking.
    """
    first, *rest = _chunks(text, classes=classes)
    if not rest:
        return re.compile(first, re.DOTALL)
    between = "".join(f"(?>[^/]*?{chunk})" for chunk in rest[:-1])
    return re.compile(f"{first}{between}[^/]*{rest[-1]}", re.DOTALL)


def fits_somewhere(way: tuple[Name, ...], path: str) -> bool:
    """Whether a compiled pattern matches the whole path."""
    # `**/NAME` is the usual line of a `.gitignore`: only the last name counts. A walk of 10,000
    # files with 30 such lines took 240 ms without this case.
    match way:
        case (None, re.Pattern() as last):
            return last.fullmatch(path[path.rfind("/") + 1 :]) is not None
    return len(way) in _reached(way, path.split("/"))


def compiled(names: list[str], *, classes: bool = False) -> tuple[Name, ...]:
    """Compile a pattern, name by name; a `**` at the end matches at least one name."""
    way: list[Name] = [
        None if name == "**" else name_pattern(name, classes=classes) for name in names
    ]
    if way and way[-1] is None:
        way.insert(-1, _ANY)
    return tuple(way)


def _ways(names: list[str]) -> list[list[str]]:
    """Return every way to read a pattern: `a**b` is in one name, or starts one and ends another."""
    ways: list[list[str]] = [[]]
    for name in names:
        before, found, after = name.partition("**")
        if not found or name == "**":
            ways = [[*way, name] for way in ways]
            continue
        after = after.replace("**", "*").lstrip("*")
        across = [f"{before}*", "**", f"*{after}"]
        both = [[f"{before}*{after}"], across]
        ways = [[*way, *more] for way in ways for more in both][:_MAX_WAYS]
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
    """Return the positions in the pattern that the names can lead to."""
    positions = _skipping({0}, way)
    for name in names:
        following = set()
        for position in positions:
            if position == len(way):
                continue
            pattern = way[position]
            if pattern is None:
                following.add(position)
            elif pattern.fullmatch(name):
                following.add(position + 1)
        positions = _skipping(following, way)
    return positions


def _skipping(positions: set[int], way: tuple[Name, ...]) -> set[int]:
    """Add the positions after each `**`, which may match no name at all."""
    for position in [*positions]:
        while position < len(way) and way[position] is None:
            position += 1  # noqa: PLW2901  until no `**` follows
            positions.add(position)
    return positions


def _chunks(text: str, *, classes: bool) -> list[str]:
    """Return the regular expressions of the texts between the stars."""
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
    """Return where a class ends, or -1. A bracket at its begin belongs to the class."""
    return text.find("]", at + 1 + (text[at : at + 1] in {"!", "^"}))


def _class(inside: str) -> str:
    """Return a class of characters; a malformed one matches none."""
    negated = inside[:1] in {"!", "^"}
    body = re.sub(r"([\[\\&~|])", r"\\\1", inside[1:] if negated else inside)
    body = f"\\{body}" if body[:1] in {"]", "^"} else body
    try:
        re.compile(f"[{body}]")
    except re.error:
        return "(?!)"
    return f"[{'^' if negated else ''}{body}]"


# ---- folded paths ----

_TAIL = re.compile(r"(?<=[^/.])[. ]+(?=/|$)|:[^/]*")


def folded(path: str) -> str:
    """Return one text for all spellings of a path that some file system treats as one name.

    It folds case (APFS, NTFS), Unicode forms (APFS), invisible characters (HFS+), dots and blanks
    at the end of a name and streams after a colon (NTFS). Use it for protection only: two names
    with one folded form may be two files; then the second is protected without need.
    """
    text = path.lower() if path.isascii() else _folded(path)
    return _TAIL.sub("", text) if _is_odd(text) else text


def _folded(path: str) -> str:
    shown = "".join(each for each in path if unicodedata.category(each) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())


def _is_odd(text: str) -> bool:
    return ":" in text or text[-1:] in {".", " "} or "./" in text or " /" in text
