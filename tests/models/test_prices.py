"""Prices of models: the shipped table, its format, and the price of a reply."""

import json
import math
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data import providers
from genai_prices.types import TieredPrices

from penstock.core.errors import ConfigError
from penstock.core.messages import Usage as Used
from penstock.models.prices import SHIPPED, Prices, open_prices, read_prices, shipped_prices
from scripts.prices import PROVIDERS, table, text_of

RISE = "must have tiers that begin at 0 and rise"
BOUND = "from 0 to 100,000"
GOOD: dict[str, Any] = {
    "version": 1,
    "date": "2026-11-22",
    "source": "mine",
    "models": {"a:m": {"match": ["m", "^m-\\d+$"], "input": 1, "output": [[0, 2], [100, 3]]}},
}


def counts(**given: int) -> Used:
    return Used(**{f"{name}_tokens": count for name, count in given.items()})


def known(provider: str, model: str) -> Prices:
    found = shipped_prices().find(provider, model)
    assert found is not None
    return found.prices


def test_each_part_of_the_input_has_its_price() -> None:
    used = counts(
        input=1_000_000,
        cached=200_000,
        cache_write=50_000,
        cache_write_long=50_000,
        output=100_000,
    )
    assert known("anthropic", "claude-opus-5-5").cost(used) == pytest.approx(5.49)


@pytest.mark.parametrize(("tokens", "cost"), [(100_000, 0.0105), (100_001, 0.0525001 + 4e-7)])
def test_a_tier_applies_to_the_whole_request(tokens: int, cost: float) -> None:
    price = known("anthropic", "claude-haiku-5-5")
    used = counts(input=tokens, output=1000)
    assert price.cost(used) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-opus-5-5-20261010"),
        ("anthropic", "claude-haiku-5-5"),
        ("openai", "gpt-4.1-mini"),
        ("google", "gemini-2.5-pro"),
        ("mistral", "mistral-large-latest"),
    ],
)
@pytest.mark.parametrize("tokens", [0, 1, 100_001, 250_000])
def test_prices_are_those_of_the_source(provider: str, model: str, tokens: int) -> None:
    used = counts(input=tokens, output=777)
    theirs = calc_price(
        Usage(input_tokens=tokens, output_tokens=777), model_ref=model, provider_id=provider
    )
    assert known(provider, model).cost(used) == pytest.approx(float(theirs.total_price))


def test_every_name_has_the_price_of_the_source() -> None:
    compared = 0
    day = datetime.fromisoformat(f"{shipped_prices().date}T00:00Z")
    for provider in providers:
        for model in provider.models if provider.id in PROVIDERS else ():
            theirs = provider.find_model(model.id)
            ours = shipped_prices().find(provider.id, model.id)
            if theirs is None or ours is None or not isinstance(ours.prices.input, float | tuple):
                continue
            price = theirs.get_prices(day).input_mtok
            base = price.base if isinstance(price, TieredPrices) else price
            mine = ours.prices.input
            first = mine[0][1] if isinstance(mine, tuple) else mine
            assert float(base or 0) == first, (provider.id, model.id)
            compared += 1
    assert compared > 200


def test_holes_in_a_row() -> None:
    one = ((0, 1.0),)
    used = counts(input=1_000_000, cached=500_000, cache_write=100_000, output=1_000_000)
    assert Prices(input=one, output=one).cost(used) == 2, "cached and writes cost as input"
    assert Prices(input=one).cost(used) is None
    assert Prices(output=one).cost(used) is None
    assert Prices().cost(counts()) is None


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (-1, f"must be USD per million tokens, {BOUND}, found -1"),
        (((0, 1.0), (5, None)), f"must be USD per million tokens, {BOUND}, found None"),
        (math.nan, "must be a price, or a tuple of (from, price), found nan"),
        (math.inf, "must be a price, or a tuple of (from, price), found inf"),
        ("1", "must be a price, or a tuple of (from, price), found '1'"),
        (True, "must be a price, or a tuple of (from, price), found True"),
        ([[0, 1]], "must be a price, or a tuple of (from, price), found [[0, 1]]"),
        ((), "must be a price, or a tuple of (from, price), found ()"),
        ((1, 2), "must be a price, or a tuple of (from, price), found (1, 2)"),
        (((5, 1.0),), f"{RISE}, found [5]"),
        (((0, 1.0), (0, 2.0)), f"{RISE}, found [0, 0]"),
    ],
    ids=repr,
)
def test_a_wrong_price_of_a_program_is_refused(price: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Prices(input=1, cached=price)
    assert str(caught.value) == f"Prices: cached {message}"


def test_prices_over_others_replace_those_that_they_have() -> None:
    mine, table = Prices(input=1.0, cached=0.0), Prices(input=((0, 2.0),), output=3.0, cached=1.0)
    assert mine.over(table) == Prices(input=1.0, output=3.0, cached=0.0)


def test_the_first_table_that_exists_is_used(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert open_prices((first, second)) is shipped_prices()
    second.write_text(json.dumps(GOOD))
    found = open_prices((first, second))
    assert (found.file, list(found.rows)) == (str(second), ["a:m"])
    first.write_text("{")
    with pytest.raises(ConfigError, match=r"first\.json is not JSON"):
        open_prices((first, second))
    with pytest.raises(ConfigError, match="cannot be read"):
        open_prices((tmp_path,))


def test_more_cached_than_read_costs_no_less_than_nothing() -> None:
    price = Prices(input=((0, 1.0),), output=((0, 1.0),), cached=((0, 0.5),))
    assert price.cost(counts(input=1_000_000, cached=2_000_000)) == 1


@pytest.mark.parametrize(
    ("provider", "model", "is_known"),
    [
        ("anthropic", "claude-opus-5-5", True),
        ("anthropic", "Claude-Opus-5-5-20261010", True),
        ("anthropic", "claude-opus-5-5-x", False),
        ("openai-responses", "gpt-4.1", True),
        ("google-cloud", "gemini-2.5-pro", True),
        ("openai", "claude-opus-5-5", False),
        ("anthropic", "", False),
        ("nobody", "m", False),
    ],
)
def test_models_are_found_by_provider_and_name(provider: str, model: str, is_known: bool) -> None:
    assert (shipped_prices().find(provider, model) is not None) is is_known


def test_the_shipped_table_is_what_the_script_writes() -> None:
    text = SHIPPED.read_text()
    day = date.fromisoformat(json.loads(text)["date"])
    assert text == text_of(table(day)), "run `python -m scripts.prices DATE`"
    assert "MIT License" in text
    assert "http" not in text


@pytest.mark.programs
def test_no_table_is_read_before_a_price_is_asked_for() -> None:
    code = (
        "import penstock.models.prices as p\n"
        "import sys\n"
        "print(p.shipped_prices.cache_info().currsize, 'genai_prices' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 False\n"


def test_a_good_table_is_read() -> None:
    found = read_prices(json.dumps(GOOD).encode(), "mine.json")
    row = found.find("a", "m-12")
    assert row is not None
    price = row.prices
    assert price.cost(counts(input=100, output=1_000_000)) == pytest.approx(2.0001)
    assert price.cost(counts(input=101, output=1_000_000)) == pytest.approx(3.000101)


ROW = "models['a:m']"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version must be 1, found 2"),
        ({"version": True}, "version must be 1, found True"),
        ({"date": None}, "date must be text, found None"),
        ({"models": []}, "models must be an object, found list"),
        ({"models": {"m": GOOD["models"]["a:m"]}}, "models['m']: the name must be provider:model"),
        ({"models": {"a:m": 3}}, f"{ROW} must be an object, found int"),
    ],
)
def test_a_broken_table_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_prices(json.dumps({**GOOD, **change}).encode(), "mine.json")
    assert str(caught.value) == f"mine.json: {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": -1}, f".input must be USD per million tokens, {BOUND}, found -1"),
        ({"input": "1"}, f".input must be USD per million tokens, {BOUND}, found '1'"),
        ({"input": True}, f".input must be USD per million tokens, {BOUND}, found True"),
        ({"cached": 1e9}, f".cached must be USD per million tokens, {BOUND}, found 1000000000.0"),
        ({"input": []}, ".input must be a price, or a list of [from, price]"),
        ({"input": [[0]]}, ".input must be a price, or a list of [from, price]"),
        ({"input": [[5, 1]]}, f".input {RISE}, found [5]"),
        ({"input": [[0, 1], [0, 2]]}, f".input {RISE}, found [0, 0]"),
        ({"input": [[0, -2]]}, f".input must be USD per million tokens, {BOUND}, found -2"),
        ({"input": [["0", 2]]}, f".input {RISE}, found ['0']"),
        ({"context": 0}, ".context must be a number of tokens above 0, found 0"),
        ({"match": []}, ".match must be a list of names and of expressions that begin with ^"),
        (
            {"match": ["^("]},
            (
                ".match: '^(' is not a regular expression: "
                "missing ), unterminated subpattern at position 1"
            ),
        ),
        ({"match": [3]}, ".match: expected a text of at most 500 characters, found 3"),
        (
            {"inputs": 1},
            (
                " has the unknown member 'inputs'; there are match, context, input, output, "
                "cached, cache_write, cache_write_long"
            ),
        ),
    ],
)
def test_a_broken_row_is_refused(change: dict[str, Any], message: str) -> None:
    broken = {**GOOD, "models": {"a:m": {**GOOD["models"]["a:m"], **change}}}
    with pytest.raises(ConfigError) as caught:
        read_prices(json.dumps(broken).encode(), "mine.json")
    assert str(caught.value) == f"mine.json: {ROW}{message}"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[1",
        b"\xff",
        b"[" * 100_000,
        b'{"version": NaN}',
        b'{"version": 1e400}',
        b"3",
        b"null",
    ],
)
def test_what_is_no_table_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^mine\.json"):
        read_prices(text, "mine.json")


def test_a_table_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(ConfigError, match="more than 8,000,000 bytes"):
        read_prices(b" " * 8_000_001, "mine.json")
