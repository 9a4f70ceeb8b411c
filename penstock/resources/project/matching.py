"""Finds lines that match a pattern. A program of its own, so that an endless match can be killed.

`python -I -m penstock.resources.project.matching` reads one request from stdin, as JSON, and writes
a line of JSON for each file with matches, then one with the outcome.
"""

import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.resources.project.opening import open_to_read

MAX_BYTES = 32 << 20
"""Largest file that is searched."""
_MAX_CHARS = 500
_LOOKED_AT = 8192
_MAX_SECONDS = 60
"""The process ends itself after this time, in case its parent has died."""
_WORD = re.compile(r"[\w /,:;=@<>\"'-]+")


class Matching:
    """One search: its pattern, and how many matches are left."""

    def __init__(self, request: dict[str, Any]) -> None:
        text = re.escape(request["pattern"]) if request["literal"] else request["pattern"]
        self._regex = re.compile(text, re.IGNORECASE if request["ignore_case"] else 0)
        is_plain = request["literal"] or _WORD.fullmatch(request["pattern"])
        needle = request["pattern"] if is_plain and not request["ignore_case"] else ""
        self._needle = needle.encode("utf-8", "replace")
        self._context: int = request["context"]
        self._left: int = request["limit"]
        self.is_cut = False
        """More lines match than the limit allows."""

    def lines(self, path: str, content: bytes) -> list[str]:
        """Return the lines of a file that match, with those around them."""
        if self._needle not in content:
            return []
        lines = content.decode("utf-8", "replace").split("\n")
        if lines[-1] == "":
            lines.pop()
        matching = []
        for number, line in enumerate(lines):
            if self._regex.search(line.removesuffix("\r")):
                if not self._left:
                    self.is_cut = True
                    break
                self._left -= 1
                matching.append(number)
        return list(self._shown(path, lines, matching))

    def _shown(self, path: str, lines: Sequence[str], matching: list[int]) -> Iterator[str]:
        hits, before = set(matching), -1
        for number in matching:
            first = max(number - self._context, before + 1)
            if self._context and before >= 0 and first > before + 1:
                yield "--"
            for shown in range(first, min(number + self._context + 1, len(lines))):
                if shown > number and shown in hits:
                    break
                yield _line(path, shown, lines[shown], "-:"[shown in hits])
                before = shown


def read_content(root: Path, real: str) -> bytes | None:
    """Return the bytes of a text file; None if it is not text, too large, or gone."""
    try:
        with open_to_read(root, real) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(content) > MAX_BYTES or b"\0" in content[:_LOOKED_AT]:
        return None
    return content


def search(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the matches of each file, then the outcome."""
    try:
        matching = Matching(request)
    except (re.error, OverflowError, RecursionError) as error:
        yield {"bad_pattern": str(error)}
        return
    root = Path(request["root"])
    for path, real in request["files"]:
        content = read_content(root, real)
        lines = [] if content is None else matching.lines(path, content)
        if lines:
            yield {"found": lines}
        if matching.is_cut:
            break
    yield {"cut": matching.is_cut}


def _line(path: str, number: int, line: str, mark: str) -> str:
    text = line.removesuffix("\r")
    shown = text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"
    return f"{path}{mark}{number + 1}{mark} {shown}"


def _main() -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(_MAX_SECONDS)
    for hit in search(json.load(sys.stdin)):
        sys.stdout.write(f"{json.dumps(hit)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
