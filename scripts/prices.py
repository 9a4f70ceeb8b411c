"""Writes penstock/models/prices.json from genai-prices: `python -m scripts.prices 2026-11-22`.

Takes the providers that penstock names, with the prices of that day: a price that starts later is
not in the table. A model whose price depends on the time of day is left out, because one figure
would be wrong.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

HOME = Path(__file__).parents[1] / "penstock" / "models" / "prices.json"
PROVIDERS = ("anthropic", "deepseek", "google", "groq", "mistral", "openai", "x-ai")
PARTS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_long": "cache_write_1h_mtok",
}


def main() -> int:
    """Write the table as of the day that is given."""
    if len(sys.argv) != 2:  # noqa: PLR2004  the program and the day
        print("usage: python -m scripts.prices YYYY-MM-DD")
        return 1
    HOME.write_text(text_of(table(date.fromisoformat(sys.argv[1]))), encoding="utf-8")
    return 0


def text_of(found: dict[str, Any]) -> str:
    """Return the table as JSON, one model a line."""
    head = {name: value for name, value in found.items() if name != "models"}
    rows = [
        f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}"
        for name, row in found["models"].items()
    ]
    return json.dumps(head, indent=1)[:-2] + ',\n "models": {\n' + ",\n".join(rows) + "\n }\n}\n"


def table(day: date) -> dict[str, Any]:
    """Return the table as of a day."""
    models = {
        f"{provider.id}:{model.id}": row
        for provider in providers
        if provider.id in PROVIDERS
        for model in provider.models
        if (row := _row(model, day)) is not None
    }
    package = distribution("genai-prices")
    return {
        "version": 1,
        "date": day.isoformat(),
        "source": f"genai-prices {package.version} (MIT)",
        "licence": package.read_text("licenses/LICENSE"),
        "models": models,
    }


def _row(model: types.ModelInfo, day: date) -> dict[str, Any] | None:
    conditional = model.prices if isinstance(model.prices, list) else []
    if any(isinstance(each.constraint, types.TimeOfDateConstraint) for each in conditional):
        return None
    prices = model.get_prices(datetime.combine(day, time(), UTC))
    parts = {name: _tiers(getattr(prices, key, None)) for name, key in PARTS.items()}
    known = {name: price for name, price in parts.items() if price is not None}
    if not {"input", "output"} & known.keys():
        return None
    context = {} if model.context_window is None else {"context": model.context_window}
    return {"match": list(dict.fromkeys(_patterns(model.match))), **context, **known}


def _tiers(price: Any) -> Any:
    if price is None:
        return None
    if isinstance(price, types.TieredPrices):
        return [
            [0, _number(price.base)],
            *([tier.start, _number(tier.price)] for tier in price.tiers),
        ]
    return _number(price)


def _number(price: Any) -> float | int:
    number = float(price)
    return int(number) if number.is_integer() else number


def _patterns(match: Any) -> Iterator[str]:
    """Yield exact names, and regular expressions, which begin with `^`."""
    match match:
        case types.ClauseOr(or_=clauses):
            for clause in clauses:
                yield from _patterns(clause)
        case types.ClauseAnd(and_=clauses):
            yield "^" + "".join(f"(?={_alternatives(clause)})" for clause in clauses)
        case types.ClauseEquals(equals=name):
            yield name
        case types.ClauseStartsWith(starts_with=start):
            yield f"^{re.escape(start)}"
        case types.ClauseEndsWith(ends_with=end):
            yield f"^.*{re.escape(end)}$"
        case types.ClauseContains(contains=part):
            yield f"^.*{re.escape(part)}"
        case types.ClauseRegex(regex=pattern):
            yield (
                pattern if pattern.startswith("^") and "|" not in pattern else f"^.*?(?:{pattern})"
            )


def _alternatives(clause: Any) -> str:
    """Return one regular expression for a clause, to be matched at the start of a name."""
    patterns = (
        each if each.startswith("^") else f"^{re.escape(each)}$" for each in _patterns(clause)
    )
    return "|".join(f"(?:{each.removeprefix('^')})" for each in patterns)


if __name__ == "__main__":
    sys.exit(main())
