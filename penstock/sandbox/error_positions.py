"""Where an error was made: some engines show the end of its arguments, authors want its `new`."""

import re
from collections.abc import Mapping, Sequence

from penstock.sandbox.script import Module

_FRAME = re.compile(
    r"^(\s+at (?:(?P<within>[\w$.]+) )?\(?tool:///(?P<file>.+?)):(\d{1,9}):(\d{1,9})(\)?)$"
)
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_MADE = re.compile(r"(?:\bnew\s+)?(?P<callee>[\w$][\w$.]*)\s*$")
_CALLEE = re.compile(r"[\w$.]+")
_FARTHEST = 4000
"""Characters between an error's `new` and what is shown of it."""
_LONGEST_NAME = 200


def point_at_new(frames: Sequence[str], name: str, modules: Mapping[str, Module]) -> list[str]:
    """Return the frames of an error of this name, the first of them at the `new` that made it."""
    found = list(frames)
    while len(found) > 1 and (within := _within(found[0])):
        moved = _moved(found[1], within, modules)
        if moved is None or not _is_new(moved, modules):
            break
        # The constructor of a class of errors: who made the error says more.
        name, found = within, found[1:]
    if found:
        found[0] = _moved(found[0], name, modules) or found[0]
    return found


def _within(frame: str) -> str | None:
    matched = _FRAME.match(frame)
    return matched["within"] if matched else None


def _moved(frame: str, name: str, modules: Mapping[str, Module]) -> str | None:
    """Return the frame at the `new` of what it is in, if that makes something of this name."""
    matched = _FRAME.match(frame)
    module = modules.get(matched["file"]) if matched else None
    if matched is None or module is None:
        return None
    place = _making(module.source, int(matched[4]), int(matched[5]), name)
    return None if place is None else f"{matched[1]}:{place[0]}:{place[1]}{matched[6]}"


def _is_new(frame: str, modules: Mapping[str, Module]) -> bool:
    """Whether a frame shows a `new`: a function may be called as it is, and is shown then."""
    matched = _FRAME.match(frame)
    if matched is None:
        return False
    line = modules[matched["file"]].source.split("\n")[int(matched[4]) - 1]
    return line.startswith("new", int(matched[5]) - 1)


def _making(source: str, line: int, column: int, name: str) -> tuple[int, int] | None:
    lines = source.split("\n")
    if line > len(lines):
        return None
    at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    begun = _begun(source, at, name)
    if begun is None:
        return None
    before = source[:begun]
    return before.count("\n") + 1, begun - before.rfind("\n")


def _begun(source: str, at: int, name: str) -> int | None:
    """Return where the making begins that a character is in."""
    if source.startswith("new", at):
        return at
    least = max(at - _FARTHEST, 0)
    if callee := _CALLEE.match(source, at):
        whole = source[least : callee.end()]
    else:
        whole = source[least:at]
    if callee and (made := _made(whole, name)) is not None:
        return least + made
    before = _TEXT.sub(lambda text: " " * len(text[0]), source[least:at])
    closed = 0
    for place in range(len(before) - 1, -1, -1):
        if before[place] == ")":
            closed += 1
        elif before[place] == "(" and closed:
            closed -= 1
        elif before[place] == "(" and (made := _made(before[:place], name)) is not None:
            return least + made
    return None


def _made(text: str, name: str) -> int | None:
    """Return where the making of something of this name begins that a text ends with."""
    skipped = max(len(text) - _LONGEST_NAME, 0)
    matched = _MADE.search(text[skipped:])
    if matched is None or matched["callee"].rpartition(".")[2] != name:
        return None
    return skipped + matched.start()
