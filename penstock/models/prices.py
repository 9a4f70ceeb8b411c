"""The prices of models: the table that ships with penstock, or one that a user gives it.

Guarantees that nothing is read before a price is asked for; that an unknown price is None and never
0; and that a broken table is refused as a whole, with the place of the mistake. The price of a tier
applies to the whole request, as providers bill it. Batch, priority and flex prices are not in the
table. Proof: tests/models/test_prices.py. The table is written by `scripts/prices.py`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import Usage

VERSION = 1
MAX_TABLE_BYTES = 8_000_000
MAX_PRICE = 100_000.0
"""USD per million tokens. A higher price is a mistake in its unit."""
MAX_PATTERN_CHARS = 500
PRICED_TOKENS = 1_000_000
SHIPPED = Path(__file__).with_name("prices.json")
SHIPPED_NAME = "the table that ships with penstock"

Tiers = tuple[tuple[int, float], ...]
"""`(from, price)`, lowest first: a price is that of requests of more input tokens than `from`."""
Rate = float | Tiers
"""A price of one kind of tokens."""

_PARTS = ("input", "output", "cached", "cache_write", "cache_write_long")
_SAME_AS = {
    "google-cloud": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "grok": "x-ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x-ai",
}
"""Names of providers that bill as another one in the table."""


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of a model in USD per million tokens; None is unknown.

    A part without a price of its own costs as much as plain input.

    Example:
        >>> from penstock import Prices, Usage
        >>> prices = Prices(input=4, output=20, cached=0.2)
        >>> prices.cost(Usage(input_tokens=1_000_000, cached_tokens=500_000))
        2.1
    """

    input: Rate | None = None
    """Input tokens."""
    output: Rate | None = None
    """Output tokens, with reasoning."""
    cached: Rate | None = None
    """Input tokens that the provider read from its cache."""
    cache_write: Rate | None = None
    """Input tokens that the provider wrote to its cache for a short time."""
    cache_write_long: Rate | None = None
    """Input tokens that the provider wrote to its cache for an hour or longer."""

    def __post_init__(self) -> None:
        """Check each price. Raises ConfigError."""
        for name in _PARTS:
            if (rate := getattr(self, name)) is not None and (problem := _rate_problem(rate)):
                raise ConfigError(f"Prices: {name} {problem}")

    def cost(self, usage: Usage) -> float | None:
        """Return the price of one reply.

        Args:
            usage: The tokens of the reply.

        Returns:
            USD; None if input or output has no price.
        """
        if self.input is None or self.output is None:
            return None
        read = usage.input_tokens
        parts = (
            (self.cached, usage.cached_tokens),
            (self.cache_write, usage.cache_write_tokens),
            (self.cache_write_long, usage.cache_write_long_tokens),
        )
        plain = max(read - sum(count for _, count in parts), 0)
        total = plain * _rate(self.input, read)
        for price, count in parts:
            if count:
                total += count * _rate(self.input if price is None else price, read)
        total += usage.output_tokens * _rate(self.output, read)
        return total / PRICED_TOKENS

    def over(self, other: "Prices") -> "Prices":
        """Return these prices, completed with others.

        Args:
            other: The prices for parts that have none here.

        Returns:
            The price of each part.
        """
        mine = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(other, **mine)


UNKNOWN = Prices()


class KnownModel(Struct, frozen=True, kw_only=True):
    """The row of one model."""

    prices: Prices
    context_tokens: int | None = None


class PriceTable:
    """Prices by provider and name of the model."""

    def __init__(
        self,
        rows: Mapping[str, tuple[list[str], KnownModel]],
        *,
        date: str,
        source: str,
        file: str,
    ) -> None:
        self.date = date
        """The day of the prices, `2026-11-22`."""
        self.source = source
        self.file = file
        """Where the table is from."""
        self.rows: Mapping[str, KnownModel] = {key: known for key, (_, known) in rows.items()}
        self._exact: dict[tuple[str, str], str] = {}
        self._patterns: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for key, (patterns, _) in rows.items():
            provider = key.partition(":")[0]
            for pattern in patterns:
                if pattern.startswith("^"):
                    found = self._patterns.setdefault(provider, [])
                    found.append((re.compile(pattern), key))
                else:
                    self._exact.setdefault((provider, pattern.lower()), key)

    def find(self, provider: str, model: str) -> KnownModel | None:
        """Return what the table has of a provider's model, or None."""
        known, name = _SAME_AS.get(provider, provider), model.lower()
        if (key := self._exact.get((known, name))) is None:
            patterns = self._patterns.get(known, ())
            key = next((each for pattern, each in patterns if pattern.search(name)), None)
        return None if key is None else self.rows[key]


@cache
def shipped_prices() -> PriceTable:
    """Return the table that ships with penstock."""
    return read_prices(SHIPPED.read_bytes(), SHIPPED_NAME)


def open_prices(files: Sequence[Path]) -> PriceTable:
    """Return the table in the first of these files that exists, else the one that ships.

    Raises ConfigError for a table that is broken or cannot be read.
    """
    for file in files:
        try:
            return read_prices(file.read_bytes(), str(file))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigError(f"the table of prices {file} cannot be read: {error}") from error
    return shipped_prices()


def read_prices(text: bytes, file: str) -> PriceTable:
    """Return a table. Raises ConfigError that names the place of the first mistake."""
    if len(text) > MAX_TABLE_BYTES:
        raise ConfigError(
            f"{file} has more than {MAX_TABLE_BYTES:,} bytes: expected a table of prices"
        )
    try:
        table = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is not JSON: {error}") from error
    for problem in _problems(table):
        raise ConfigError(f"{file}: {problem}")
    rows = {key: (row["match"], _known(row)) for key, row in table["models"].items()}
    return PriceTable(rows, date=table["date"], source=table["source"], file=file)


def _rate(rate: Rate, input_tokens: int) -> float:
    """Return the price of the highest tier that begins below the input; the first one for none."""
    if not isinstance(rate, tuple):
        return rate
    return next((price for start, price in reversed(rate) if input_tokens > start), rate[0][1])


def _problems(table: Any) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"expected an object, found {type(table).__name__}"
        return
    if not _is_number(table.get("version")) or table["version"] != VERSION:
        yield f"version must be {VERSION}, found {table.get('version')!r}"
    for name in ("date", "source"):
        if not isinstance(table.get(name), str):
            yield f"{name} must be text, found {table.get(name)!r}"
    models = table.get("models")
    if not isinstance(models, dict):
        yield f"models must be an object, found {type(models).__name__}"
        return
    for key, row in models.items():
        for problem in _row_problems(key, row):
            yield f"models[{key!r}]{problem}"


def _row_problems(key: str, row: Any) -> Iterator[str]:
    if not all(key.partition(":")):
        yield ": the name must be provider:model"
    if not isinstance(row, dict):
        yield f" must be an object, found {type(row).__name__}"
        return
    if unknown := row.keys() - {*_PARTS, "match", "context"}:
        known = ", ".join(("match", "context", *_PARTS))
        yield f" has the unknown member {min(unknown)!r}; there are {known}"
    patterns = row.get("match")
    if not isinstance(patterns, list) or not patterns:
        yield ".match must be a list of names and of expressions that begin with ^"
    else:
        yield from (f".match: {each}" for each in map(_pattern_problem, patterns) if each)
    context = row.get("context")
    if context is not None and (type(context) is not int or context <= 0):
        yield f".context must be a number of tokens above 0, found {context!r}"
    for part in _PARTS:
        if row.get(part) is not None and (problem := _price_problem(row[part])):
            yield f".{part} {problem}"


def _pattern_problem(pattern: Any) -> str:
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN_CHARS:
        return f"expected a text of at most {MAX_PATTERN_CHARS} characters, found {pattern!r:.50}"
    try:
        re.compile(pattern if pattern.startswith("^") else "")
    except (re.error, RecursionError, OverflowError) as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return ""


def _rate_problem(rate: Any) -> str:
    """Return the problem of a price that a program gives, or ""."""
    is_tiers = isinstance(rate, tuple) and rate and all(isinstance(each, tuple) for each in rate)
    if not is_tiers and not _is_number(rate):
        return f"must be a price, or a tuple of (from, price), found {rate!r:.50}"
    return _price_problem([list(each) for each in rate] if is_tiers else rate)


def _price_problem(value: Any) -> str:
    if not isinstance(value, list):
        return "" if _is_price(value) else _EXPECTED.format(value)
    pairs = [each for each in value if isinstance(each, list) and len(each) == len(("from", "usd"))]
    if not value or len(pairs) != len(value):
        return "must be a price, or a list of [from, price]"
    starts = [start for start, _ in pairs]
    if any(type(start) is not int for start in starts) or starts != sorted({*starts, 0}):
        return f"must have tiers that begin at 0 and rise, found {starts!r}"
    wrong = [price for _, price in pairs if not _is_price(price)]
    return _EXPECTED.format(wrong[0]) if wrong else ""


_EXPECTED = f"must be USD per million tokens, from 0 to {MAX_PRICE:,.0f}, found {{!r}}"


def _is_price(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= MAX_PRICE


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and (type(value) is int or math.isfinite(value))


def _known(row: Mapping[str, Any]) -> KnownModel:
    parts = {part: _parsed_rate(row[part]) for part in _PARTS if row.get(part) is not None}
    return KnownModel(prices=Prices(**parts), context_tokens=row.get("context"))


def _parsed_rate(value: Any) -> Rate:
    if not isinstance(value, list):
        return float(value)
    return tuple((start, float(price)) for start, price in value)
