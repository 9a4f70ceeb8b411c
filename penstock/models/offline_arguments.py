"""Extracts the arguments of a tool from a user message.

In this order: a JSON object, `name=value` and `name: value`, values beside the name of a parameter
(`order A1`), then values that look like the parameter (an address, a number, a quoted text). Each
part of the text is used once, so that two parameters never get the same words. The remaining text
goes to the last missing text parameter. Shown by tests/models/test_offline_arguments.py.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.core.json_values.json_text import parse_json_at

_QUOTED = re.compile(r"\"([^\"]*)\"|(?<!\w)'([^']*)'(?!\w)|“([^“”]*)”|`([^`]*)`")
_URL = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_YES_NO = re.compile(r"\b(?:true|false|yes|no|on|off)\b", re.IGNORECASE)
_LEADING = re.compile(
    r"^(?:(?:please|can you|could you|would you|i want you to|use|call|run|try|then|and|also|the|"
    r"find|search|look up|look|show|open|tool|with|for|about|to|of|on|in|at|that|me|it|is|are|as|"
    r"like)\b|[\s:,;.!?`\"'()-])+",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r"(?:[\s,]+(?:and|then|also|please|with|using|tool|the|in|of|for|to|on|at|today|now))+$",
    re.IGNORECASE,
)
_PAIR = re.compile(r"(?<![\w.-])([\w-]+)\s?([=:])\s?(?=\S)")
_AROUND = " \t\r\n:,;.!?`\"'()-"
MAX_TEXT = 2000
MIN_NAME_LENGTH = 3
"""Shorter parameter names are ignored: people rarely write them before a value."""
_NUMERIC = frozenset(("integer", "number"))
_TRUE = frozenset(("true", "yes", "on"))
_PLACES = (
    (re.compile(r"ur[il]|link|href"), _URL),
    (re.compile(r"mail|^to |recipient"), _MAIL),
    (re.compile(r"date"), _DATE),
)
_BY_KIND = {"integer": _NUMBER, "number": _NUMBER, "boolean": _YES_NO}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class FilledArguments(Struct):
    """The arguments that the message contains."""

    arguments: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Sentences about values that do not fit."""


def fill(text: str, parameters: Json, before: str = "") -> FilledArguments:
    """Return the arguments in a text. Missing ones are searched in `before`."""
    required = [str(name) for name in parameters.get("required") or ()]
    declared = {**dict.fromkeys(required), **(parameters.get("properties") or {})}
    properties = {name: each if isinstance(each, dict) else {} for name, each in declared.items()}
    filled = FilledArguments()
    readings = [_Reading(text), _Reading(before)]
    for reading in readings:
        reading.take_json(properties, filled)
        reading.take_pairs(properties, filled)
        reading.take_neighbours(properties, filled)
    only_numbers = all(_kind(each) in _NUMERIC for each in properties.values())
    reported = {wrong.split("`")[1] for wrong in filled.wrong}
    unread = properties.keys() - reported - filled.arguments.keys()
    for name in sorted(unread, key=[*required, *properties].index):
        is_needed = name in required or only_numbers
        values = (reading.find(name, properties[name], needed=is_needed) for reading in readings)
        if (value := next((each for each in values if each is not None), None)) is not None:
            filled.arguments[name] = value
    filled.missing = [name for name in required if name not in reported | filled.arguments.keys()]
    texts = [name for name in filled.missing if _is_any_text(properties[name])]
    if texts and (rest := readings[0].rest() or readings[1].rest()):
        filled.arguments[texts[-1]] = rest
        filled.missing.remove(texts[-1])
    order = {name: place for place, name in enumerate(properties)}
    pairs = sorted(filled.arguments.items(), key=lambda pair: order.get(pair[0], len(order)))
    filled.arguments = dict(pairs)
    return filled


def describe(name: str, schema: Any) -> str:
    """Describe a parameter: its name, its type and its purpose."""
    if not isinstance(schema, dict):
        return f"`{name}`"
    options = schema.get("enum")
    kind = "one of " + ", ".join(map(str, options)) if options else _kind(schema)
    about = [part for part in (kind, str(schema.get("description", "")).rstrip(".")) if part]
    return f"`{name}`" + (f" ({': '.join(about)})" if about else "")


class _Reading:
    """A text of which each part is used at most once."""

    def __init__(self, text: str) -> None:
        self._text = text

    def take_json(self, properties: Mapping[str, Json], filled: FilledArguments) -> None:
        """Take the first JSON object with one of these names; any object if there are no names."""
        for start in [hit.start() for hit in re.finditer(r"\{", self._text)][:20]:
            value, end = _json_at(self._text, start)
            if end and (value.keys() & properties.keys() or not properties):
                filled.arguments = {**value, **filled.arguments}
                self._cut(start, end)
                return

    def take_pairs(self, properties: Mapping[str, Json], filled: FilledArguments) -> None:
        """Take `name=value` and `name: value`; text after a colon extends to the next name."""
        names = {name.lower().replace("-", "_"): name for name in properties}
        pairs = [
            (hit, names[key])
            for hit in _PAIR.finditer(self._text)
            if (key := hit[1].lower().replace("-", "_")) in names
        ]
        limit = len(self._text)
        # From the end, so that cutting a pair does not move the places of those before it.
        for hit, name in reversed(pairs):
            schema = properties[name]
            is_repeated = name in filled.arguments
            whole = hit[2] == ":" and _kind(schema) == "string"
            text, end = _value_at(self._text[:limit], hit.end(), whole=whole)
            value = _read(text, schema)
            if value is not None:
                filled.arguments.setdefault(name, value)
            elif not is_repeated:
                filled.wrong.append(f"`{name}` must be {_expected(schema)}, found {text!r}")
            self._cut(hit.start(), end)
            limit = hit.start()

    def take_neighbours(self, properties: Mapping[str, Json], filled: FilledArguments) -> None:
        """Take `order A1`, `amount of 10` and `3 seconds`."""
        for name, schema in properties.items():
            if name in filled.arguments or len(name) < MIN_NAME_LENGTH or "enum" in schema:
                continue
            kind, word = _kind(schema), re.escape(name.rstrip("s")) + "s?"
            link = r"(?:\s+(?:of|is|to|number|no\.?))?\s+"
            if kind in _NUMERIC:
                pattern = rf"\b{word}{link}({_NUMBER.pattern})|({_NUMBER.pattern})\s+{word}\b"
            elif kind == "string":
                pattern = rf"(?i:\b{word}{link})((?=[\w-]*\d)[\w-]+|[A-Z][\w-]+)(?![\w@/])"
            else:
                continue
            flags = re.IGNORECASE if kind in _NUMERIC else 0
            if (hit := re.search(pattern, self._text, flags)) is not None:
                value = _read(next(group for group in hit.groups() if group), schema)
                if value is not None:
                    filled.arguments[name] = value
                    self._cut(*hit.span())

    def find(self, name: str, schema: Json, *, needed: bool) -> Any:
        """Take a part that looks like a value of this parameter. Return None if there is none."""
        kind = _kind(schema)
        if options := schema.get("enum"):
            return self._option(options)
        if (pattern := _telling(name, kind, schema)) is not None:
            return self._next(pattern)
        if not needed or kind == "object":
            return None
        if kind == "array":
            return self._items(schema)
        return _read_found(self._next(_BY_KIND.get(kind, _QUOTED)), schema)

    def rest(self) -> str:
        """Return the unused text without words such as `please` around it."""
        text = _LEADING.sub("", self._text[:MAX_TEXT]).rstrip(_AROUND)
        return _TRAILING.sub("", text).rstrip(_AROUND)

    def _option(self, options: list[Any]) -> Any:
        for option in options:
            word = re.search(rf"(?<!\w){re.escape(str(option))}(?!\w)", self._text, re.IGNORECASE)
            if word:
                self._cut(*word.span())
                return option
        return None

    def _items(self, schema: Json) -> list[Any] | None:
        start = self._text.find("[")
        if start >= 0:
            value, end = _json_at(self._text, start)
            if end:
                self._cut(start, end)
                return list(value)
        items = schema.get("items")
        item: Json = items if isinstance(items, dict) else {}
        pattern = _NUMBER if _kind(item) in _NUMERIC else _QUOTED
        values: list[Any] = []
        while (text := self._next(pattern)) is not None:
            values.append(_read(text, item))
        return values or None

    def _next(self, pattern: re.Pattern[str]) -> str | None:
        hit = pattern.search(self._text)
        if hit is None:
            return None
        self._cut(*hit.span())
        return next((group for group in hit.groups() if group is not None), hit[0])

    def _cut(self, start: int, end: int) -> None:
        self._text = f"{self._text[:start]} {self._text[end:]}"


def _telling(name: str, kind: str, schema: Json) -> re.Pattern[str] | None:
    """Return the pattern of a value if the parameter's name or format says what it is."""
    place = f"{name} {schema.get('format', '')}".lower()
    if kind not in {"string", ""}:
        return None
    for words, pattern in _PLACES:
        if words.search(place):
            return pattern
    return None


def _read_found(text: str | None, schema: Json) -> Any:
    return None if text is None else _read(text, schema)


def _value_at(text: str, start: int, *, whole: bool) -> tuple[str, int]:
    """Return the value that starts here, and where it ends: quoted, JSON, a line or a word."""
    if (quoted := _QUOTED.match(text, start)) is not None:
        return next(group for group in quoted.groups() if group is not None), quoted.end()
    if text[start : start + 1] in {"[", "{"} and (end := _json_at(text, start)[1]):
        return text[start:end], end
    match = re.compile(r"[^\n]*" if whole else r"\S*").match(text, start)
    word = match[0] if match else ""
    return word.rstrip(" ,;") or word, start + len(word)


def _read(text: str, schema: Json) -> Any:
    """Return the text as a value of this type, or None."""
    kind = _kind(schema)
    if (options := schema.get("enum")) is not None:
        return next((each for each in options if str(each).lower() == text.lower()), None)
    if kind in {"string", ""}:
        return text
    if kind == "boolean":
        return text.lower() in _TRUE if _YES_NO.fullmatch(text) else None
    value, end = _json_at(text, 0)
    if end != len(text) or (kind in _NUMERIC and isinstance(value, bool)):
        return None
    return value if isinstance(value, _KINDS.get(kind, object)) else None


def _json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that starts here and where it ends; 0 if there is none."""
    try:
        return parse_json_at(text, start)
    except (ValueError, RecursionError):
        return None, 0


def _is_any_text(schema: Json) -> bool:
    """Whether a parameter takes text and has no list of its values."""
    return _kind(schema) in {"string", ""} and not schema.keys() & {"enum", "const"}


def _expected(schema: Json) -> str:
    if options := schema.get("enum"):
        return "one of " + ", ".join(map(str, options))
    kind = _kind(schema)
    return {"integer": "an integer", "array": "a JSON array", "object": "a JSON object"}.get(
        kind, f"a {kind}"
    )


def _kind(schema: Any) -> str:
    """Return the first type of a schema that is not null; empty if it allows any type."""
    if not isinstance(schema, Mapping):
        return ""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return next((str(kind) for kind in kinds if kind != "null"), "")
    if isinstance(kinds, str):
        return kinds
    branches = schema.get("anyOf") or schema.get("oneOf") or ()
    return next((kind for branch in branches if (kind := _kind(branch)) not in {"", "null"}), "")
