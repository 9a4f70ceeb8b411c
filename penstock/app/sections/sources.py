"""The sources of settings: the program, the environment, and the file, in this order.

`Sources` merges them, and finds the source of a value again for messages: the name of a variable,
or the line of the file. tomllib reports no lines, so `_line` searches the text for the section and
the key; a wrong guess shows another line and changes no value.

Shown by tests/app/sections/test_sources.py.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import parse_json
from penstock.manifest.files import UnreadReason, read_bounded

_MAX_BYTES = 1 << 20
PathInSettings = tuple[str, ...]
"""The names of sections and then of a key, such as `("server", "port")`."""


class Sources:
    """Merges the values of all sources, and knows the source of each."""

    def __init__(
        self, file: Path, environ: Mapping[str, str], by_program: Json, *, prefix: str
    ) -> None:
        self._by_program = by_program
        self._environ = environ
        self._name = file.name
        self._text = _read(file)
        self._file = _parse(self._text, file.name)
        self._variables = {
            tuple(name.removeprefix(prefix).lower().split("__")): name
            for name in environ
            if name.startswith(prefix)
        }

    def merged(self, is_text: Callable[[PathInSettings], bool]) -> str:
        """Return the values as JSON. The program wins over the environment, and that over the file.

        The text of a variable is parsed as JSON, unless the setting is a text itself.
        """
        values = self._file
        for path, name in self._variables.items():
            text = self._environ[name]
            values = _over(values, _nested(path, text if is_text(path) else _decoded(text)))
        return json.dumps(_over(values, self._by_program), default=str)

    def source_of(self, path: PathInSettings) -> str:
        """Return the source of the value at a path, as the beginning of a message."""
        if _has(self._by_program, path):
            return ""
        for length in range(len(path), 0, -1):
            if name := self._variables.get(path[:length]):
                return f"{name}: "
        if not _has(self._file, path):
            for longer, name in self._variables.items():
                if longer[: len(path)] == path:
                    return f"{name}: "
        return f"{self._name}:{_line(self._text, path)}: "


def settings_error(problems: list[str]) -> ConfigError:
    """Return one error with all messages."""
    if len(problems) == 1:
        return ConfigError(problems[0])
    lines = "\n".join(f"  {problem}" for problem in problems)
    return ConfigError(f"The settings cannot be used, {len(problems)} problems:\n{lines}")


def _read(file: Path) -> str:
    content = read_bounded(file, _MAX_BYTES)
    if isinstance(content, UnreadReason):
        if content.is_missing:
            return ""
        raise ConfigError(f"{file.name}: {content.message}.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{file.name}:{line}: this is not UTF-8; save it as UTF-8.") from None


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        number = re.search(r"line (\d+)", place)
        line = number[1] if number else text.count("\n") + 1
        problem = f"{reason[0].lower()}{reason[1:]}"
        raise ConfigError(f"{name}:{line}: this is not TOML: {problem}.") from None


def _over(low: Json, high: Json) -> dict[str, Any]:
    """Return both merged, table by table; the values of `high` win."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _over(below, value)
        else:
            merged[key] = value
    return merged


def _nested(path: PathInSettings, value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _decoded(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _has(values: Any, path: PathInSettings) -> bool:
    for key in path:
        if not isinstance(values, Mapping):
            return True
        if key not in values:
            return False
        values = values[key]
    return True


def _line(text: str, path: PathInSettings) -> int:
    """Return the line of a key, or of its section: tomllib does not report lines."""
    best, most = 1, 0
    section: list[str] = []
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*(\[{1,2})\s*([^\[\]#]+?)\s*\]", line):
            here = section = _parts(header[2])
            if header[1] == "[[":
                counts[header[2]] += 1
                section.append(str(counts[header[2]] - 1))
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            here = section + _parts(key[1])
        else:
            continue
        if len(here) > most and tuple(here) == path[: len(here)]:
            best, most = number, len(here)
    return best


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
