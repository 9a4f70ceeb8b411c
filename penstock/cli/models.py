"""`penstock models`: the models with their prices, and a newer table of prices."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from penstock.app.settings_sections import ModelEntry
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table
from penstock.core.errors import ConfigError, NotFound
from penstock.core.text import count
from penstock.models.model import ModelCard
from penstock.models.prices import (
    SHIPPED_NAME,
    Prices,
    PriceTable,
    Rate,
    open_prices,
    read_prices,
    shipped_prices,
)
from penstock.models.providers import ModelConfig
from penstock.resources.project.opening import replace_file

_COLUMNS = ("model", "wire", "window", "input", "output", "cached", "written")
FALLBACK = "Fallback"
_PARTS = ("input", "output", "cached", "cache_write", "cache_write_long")
Everything = Annotated[
    bool, typer.Option("--all", help="List every model of the table, not only the project's.")
]
Table = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table, as `scripts/prices.py` writes it.")
]
ForUser = Annotated[
    bool, typer.Option("--user", help="For all projects of this user, not only for this one.")
]


def list_models(
    context: typer.Context,
    *,
    everything: Everything = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """List the models of the project and their prices in USD per million tokens."""
    if context.invoked_subcommand is not None:
        return
    settings = read_settings(project)
    table = open_prices(settings.price_files)
    models = settings.find_models()
    default = models.named(models.default)
    cards = {card.model_id: card for card in (default, *models.cards())}
    listing = {name: entry for name, entry in settings.models.entries.items() if entry.models}
    wires = {card.model_id: card.api for card in cards.values()} | dict.fromkeys(listing, FALLBACK)
    rows = [(card.model_id, card.context_tokens, card.prices) for card in cards.values()]
    if everything:
        rows = [(key, row.context_tokens, row.prices) for key, row in sorted(table.rows.items())]
    if as_json:
        listed = [_part(name, window, prices) for name, window, prices in rows]
        described = [
            part | _described(cards.get(part["id"])) | _order(listing.get(part["id"]))
            for part in listed
        ]
        print_json({"default": models.default, "prices": _about(table), "models": described})
        return
    print_table(
        _COLUMNS,
        [(name, _wire_of(name, wires), window, *_cells(prices)) for name, window, prices in rows],
    )
    for name, entry in listing.items():
        note(f"{name} asks {', then '.join(entry.models)}.")
    note(f"The default is {models.default}. Prices of {table.date}, from {table.file}.")
    if table.date < shipped_prices().date:
        note(
            f"The table that ships with penstock is newer ({shipped_prices().date}). "
            "Run `penstock models reset` to use it."
        )


def update(file: Table, *, user: ForUser = False, project: ProjectFolder = None) -> None:
    """Use a newer table of prices, instead of the one that ships with penstock."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    table = read_prices(text, str(file))
    place = read_settings(project).price_files[user]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place.parent, place.name, text)
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error.strerror}") from error
    say(f"{place}: {count(len(table.rows), 'model')}, prices of {table.date}")


def reset(*, user: ForUser = False, project: ProjectFolder = None) -> None:
    """Use the table of prices that ships with penstock again."""
    settings = read_settings(project)
    settings.price_files[user].unlink(missing_ok=True)
    table = open_prices(settings.price_files)
    say(f"Prices of {table.date}, from {table.file}.")


def _wire_of(name: str, wires: Mapping[str, str]) -> str:
    """Return the API by which a model is reached; the three that need no package have names."""
    provider, _, model = name.partition(":")
    known = wires.get(name)
    wire = ModelConfig(name=name, provider=provider, model=model).wire if known is None else known
    return "Pydantic AI" if wire in {None, "pydantic_ai"} else wire


def _cells(prices: Prices) -> list[str]:
    return [_shown(rate) for rate in (prices.input, prices.output, prices.cached)] + [
        " / ".join(_shown(rate) for rate in (prices.cache_write, prices.cache_write_long) if rate)
    ]


def _shown(rate: Rate | None) -> str:
    """Return a price; one with tiers as `0.1 (0.5 above 100,000)`."""
    if rate is None:
        return ""
    if not isinstance(rate, tuple):
        return f"{rate:g}"
    first, *others = rate
    above = ", ".join(f"{price:g} above {start:,}" for start, price in others)
    return f"{first[1]:g} ({above})" if above else f"{first[1]:g}"


def _about(table: PriceTable) -> dict[str, Any]:
    shipped = table.file == SHIPPED_NAME
    return {"date": table.date, "source": table.source, "file": None if shipped else table.file}


def _part(name: str, window: int | None, prices: Prices) -> dict[str, Any]:
    return {
        "id": name,
        "contextTokens": window,
        "prices": {_wire(part): getattr(prices, part) for part in _PARTS},
    }


def _described(card: ModelCard | None) -> dict[str, Any]:
    if card is None:
        return {}
    skipped = {"model_id", "name", "provider", "prices", "context_tokens"}
    known = {_wire(name): value for name, value in asdict(card).items() if name not in skipped}
    return {"provider": card.provider, "name": card.name, "capabilities": known}


def _order(entry: ModelEntry | None) -> dict[str, Any]:
    """Return the models of a Fallback in the order in which they are asked."""
    return {} if entry is None else {"models": list(entry.models), "on": list(entry.on)}


def _wire(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


COMMANDS = {"": list_models, "update": update, "reset": reset}
