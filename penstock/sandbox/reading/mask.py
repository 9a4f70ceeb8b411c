"""Blanks the comments and the contents of strings in a source, also in one with syntax errors."""

import re
from collections.abc import Iterator

_NEXT = re.compile(
    r"//[^\r\n]*|/\*.*?(?:\*/|\Z)|'(?:\\.|[^'\\\r\n])*'?|\"(?:\\.|[^\"\\\r\n])*\"?|[`{}]", re.DOTALL
)
_IN_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(`|\$\{|\\?\Z)", re.DOTALL)
_VISIBLE = re.compile(r"[^\r\n]")
_CLOSES = {"{": "}", "(": ")", "<": ">", "[": "]"}
_BRACKET = re.compile(r"=>|[{}()<>\[\]]")


def masked(text: str) -> str:
    """Return a text of the same length that keeps code, quotes and line ends."""
    parts, end = [], 0
    for begin, stop in _hidden(text):
        parts += [text[end:begin], blank(text[begin:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def blank(text: str) -> str:
    """Replace everything but line ends by spaces."""
    return _VISIBLE.sub(" ", text)


def closing(mask: str, at: int) -> int | None:
    """Return the offset after the bracket that closes the one at `at`, or None."""
    opens = mask[at : at + 1]
    closes, depth = _CLOSES[opens], 0
    for bracket in _BRACKET.finditer(mask, at):
        if bracket[0] == opens:
            depth += 1
        elif bracket[0] == closes:
            depth -= 1
            if not depth:
                return bracket.end()
    return None


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges that are not code: comments, and the contents of strings and templates."""
    # The depth of braces in each open `${…}`: a `}` at depth 0 continues its template.
    depths: list[int] = []
    at = 0
    while (found := _NEXT.search(text, at)) is not None:
        at, sign = found.end(), found[0]
        if sign == "{" and depths:
            depths[-1] += 1
        elif sign == "}" and depths and depths[-1]:
            depths[-1] -= 1
        elif sign == "`" or (sign == "}" and depths):
            if sign == "}":
                depths.pop()
            inside = _IN_TEMPLATE.match(text, at)
            stop = len(text) if inside is None else inside.end()
            ends = inside is not None and inside[1] == "`"
            yield found.start() if sign == "}" else at, stop - ends
            if inside is not None and inside[1] == "${":
                depths.append(0)
            at = stop
        elif sign[0] == "/":
            yield found.start(), at
        elif sign[0] in "'\"":
            yield found.start() + 1, at - (len(sign) > 1 and sign[-1] == sign[0])
