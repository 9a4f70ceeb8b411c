"""Compares the calls of a reply with those that a test expects."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import ndiff
from typing import Any

from penstock.core.reply import Reply, ToolCall


def assert_calls(reply: Reply[Any], calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Check that the models of a task called these tools with these inputs, in this order.

    Calls inside tools are not compared: their tools are code, which has tests of its own.

    Args:
        reply: The reply of the task.
        calls: The id of each tool with its whole input.

    Raises:
        AssertionError: The calls differ; the message marks expected calls with `-` and calls that
            were made with `+`.

    Example:
        >>> import asyncio
        >>> from penstock.testing import ScriptedModel, assert_calls, call, memory_runtime, say
        >>> def refund(order: int) -> str:
        ...     '''Refund an order.'''
        ...     return f"refunded {order}"
        >>> model = ScriptedModel([call("refund", order=7), say("Done.")])
        >>> async def main() -> None:
        ...     async with memory_runtime(model=model, tools=[refund]) as runtime:
        ...         assert_calls(await runtime.chat("Refund 7"), [("refund", {"order": 7})])
        >>> asyncio.run(main())
    """
    expected = [_line(tool, arguments) for tool, arguments in calls]
    made = list(_lines(reply.calls))
    if made != expected:
        difference = [line for line in ndiff(expected, made) if not line.startswith("?")]
        lines = "\n".join(f"  {line}" for line in difference)
        __tracebackhide__ = True  # pytest shows the line of the test
        raise AssertionError(f"the calls differ (- expected, + made):\n{lines}")


def _lines(calls: Iterable[ToolCall]) -> Iterator[str]:
    return (_line(call.tool, call.input) for call in calls)


def _line(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=repr)}"
