"""Three small tools: nothing happens in the world, so they may run again at any time."""

from typing import Annotated

from pydantic import Field

from penstock import ToolContext, tool


@tool(effect="none", direct_call=True)
def add(a: float, b: float) -> dict[str, float]:
    """Add two numbers and return their sum.

    Args:
        a: The first number.
        b: The second number.
    """
    return {"sum": a + b}


@tool(effect="none", direct_call=True)
def dice(
    count: Annotated[int, Field(ge=1, le=20)] = 1,
    sides: Annotated[int, Field(ge=2, le=100)] = 6,
    *,
    ctx: ToolContext,
) -> dict[str, object]:
    """Roll dice and return what they show; one with six sides if nothing else is said.

    Args:
        count: How many dice.
        sides: How many sides each has.
    """
    # The key is the same whenever this very call is run, so a crash cannot change the luck.
    luck = int(ctx.idempotency_key, 16)
    rolled: list[int] = []
    for _ in range(count):
        luck, one = divmod(luck, sides)
        rolled.append(one + 1)
    return {"message": f"Rolled {', '.join(map(str, rolled))}", "rolled": rolled}
