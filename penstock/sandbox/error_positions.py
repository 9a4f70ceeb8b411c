"""Corrects the position of an error on its stack: from its arguments to its `new`.

QuickJS reports the end of the arguments of `new Error(…)`, V8 the `new`. Authors look for the
`new`, and both engines should report the same, so the source is searched backwards from the
reported position. The search is textual and bounded: if it finds nothing, the frame stays as it is.
"""

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
"""Most characters between the `new` and the reported position."""
_LONGEST_NAME = 200


def point_at_new(frames: Sequence[str], name: str, modules: Mapping[str, Module]) -> list[str]:
    """Return the frames of an error of this name, the first one at the `new` of the error."""
    kept = list(frames)
    while len(kept) > 1 and (within := _within(kept[0])):
        moved = _moved(kept[1], within, modules)
        if moved is None or not _is_new(moved, modules):
            break
        # The top frame is the constructor of an error class: its caller is more useful.
        name, kept = within, kept[1:]
    if kept:
        kept[0] = _moved(kept[0], name, modules) or kept[0]
    return kept


def _within(frame: str) -> str | None:
    matched = _FRAME.match(frame)
    return matched["within"] if matched else None


def _moved(frame: str, name: str, modules: Mapping[str, Module]) -> str | None:
    """Return the frame moved to the `new` of its expression, if that constructs this name."""
    matched = _FRAME.match(frame)
    module = modules.get(matched["file"]) if matched else None
    if matched is None or module is None:
        return None
    position = _construction(module.source, int(matched[4]), int(matched[5]), name)
    return None if position is None else f"{matched[1]}:{position[0]}:{position[1]}{matched[6]}"


def _is_new(frame: str, modules: Mapping[str, Module]) -> bool:
    """Whether a frame is at a `new`: a function may also be called without it."""
    matched = _FRAME.match(frame)
    if matched is None:
        return False
    line = modules[matched["file"]].source.split("\n")[int(matched[4]) - 1]
    return line.startswith("new", int(matched[5]) - 1)


def _construction(source: str, line: int, column: int, name: str) -> tuple[int, int] | None:
    lines = source.split("\n")
    if line > len(lines):
        return None
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    start = _start(source, offset, name)
    if start is None:
        return None
    before = source[:start]
    return before.count("\n") + 1, start - before.rfind("\n")


def _start(source: str, offset: int, name: str) -> int | None:
    """Return where the `new` expression around an offset starts."""
    if source.startswith("new", offset):
        return offset
    least = max(offset - _FARTHEST, 0)
    if callee := _CALLEE.match(source, offset):
        text = source[least : callee.end()]
    else:
        text = source[least:offset]
    if callee and (start := _start_of_callee(text, name)) is not None:
        return least + start
    # Blank strings, so that their parentheses do not count; then walk back over closed pairs.
    before = _TEXT.sub(lambda text: " " * len(text[0]), source[least:offset])
    closed = 0
    for index in range(len(before) - 1, -1, -1):
        if before[index] == ")":
            closed += 1
        elif before[index] == "(" and closed:
            closed -= 1
        elif before[index] == "(" and (start := _start_of_callee(before[:index], name)) is not None:
            return least + start
    return None


def _start_of_callee(text: str, name: str) -> int | None:
    """Return where `new NAME` (or `NAME`) starts at the end of a text, or None."""
    skipped = max(len(text) - _LONGEST_NAME, 0)
    matched = _MADE.search(text[skipped:])
    if matched is None or matched["callee"].rpartition(".")[2] != name:
        return None
    return skipped + matched.start()
