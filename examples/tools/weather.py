"""The weather, from a table: a tool that reads, and one that asks a person and calls another."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from penstock import ToolContext, ToolFailed, tool


@dataclass
class Weather:
    """What a tool returns may be a dataclass; it is also how the output is checked."""

    city: str
    sky: str
    temperature: float
    unit: str


TABLE = {
    "lisbon": ("clear", 24.0),
    "oslo": ("snow", -3.0),
    "quito": ("clouds", 15.0),
    "tokyo": ("rain", 18.0),
}


@tool(effect="read", direct_call=True)
def weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> Weather:
    """Return the weather of a city: the sky and the temperature.

    Args:
        city: Lisbon, Oslo, Quito or Tokyo.
        unit: Of the temperature.
    """
    found = TABLE.get(city.lower())
    if found is None:
        near = get_close_matches(city.lower(), TABLE, n=1) or list(TABLE)
        raise ToolFailed(
            f"nothing is known about {city!r}",
            "CITY_UNKNOWN",
            suggestion=f"Try {', '.join(each.title() for each in near)}.",
        )
    sky, celsius = found
    degrees = celsius if unit == "celsius" else celsius * 9 / 5 + 32
    return Weather(city.title(), sky, degrees, unit)


@tool(effect="none", direct_call=True)
async def plan_day(ctx: ToolContext) -> str:
    """Plan a day out: asks the person for the city, looks at its weather, and gives advice."""
    # The task is parked here: no memory is held, and the process may be stopped. After the answer
    # the function is entered again from its first line, and `ask` returns at once.
    city = await ctx.ask("Which city?", options=[each.title() for each in TABLE])
    outcome = await ctx.call("weather", {"city": city})
    if outcome.error is not None:
        return f"No plan for {city}: {outcome.error.message}."
    sky = outcome.output["sky"]
    advice = "Take a walk." if sky in {"clear", "clouds"} else "Visit a museum."
    return f"{city} has {sky}. {advice}"
