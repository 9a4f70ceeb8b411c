"""A tool that takes its time. Kill the process while it runs, start it again, and look."""

import asyncio
from contextlib import suppress
from typing import Annotated

from pydantic import Field

from penstock import ToolContext, tool


@tool(effect="write", timeout=120, direct_call=True)
async def slow_report(
    seconds: Annotated[int, Field(ge=1, le=60)] = 8, *, ctx: ToolContext
) -> dict[str, object]:
    """Write a report slowly, a page each second, and say how far it is.

    Args:
        seconds: How long it takes.
    """
    # This is a write, so a crash in the middle is never hidden by a second run: the model reads
    # INTERRUPTED and decides. With idempotent=True it would run again, with the same key.
    for page in range(1, seconds + 1):
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await ctx.wait_cancelled()
        ctx.progress(page, seconds, f"page {page}")
    return {"title": f"A report of {seconds} pages", "pages": seconds}
