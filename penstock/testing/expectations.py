"""Expectations of a test: the calls of a reply, and a script that a model uses to its end."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import ndiff
from typing import Any

from penstock.core.errors import ModelRefused
from penstock.core.reply import Reply, ToolCall
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply


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


class ScriptedTest(ScriptedModel):
    """The model of the fixture `scripted`.

    Example:
        >>> from penstock.testing import ScriptedTest, memory_runtime_sync, say
        >>> scripted = ScriptedTest()
        >>> scripted.play(say("Good morning."))
        >>> with memory_runtime_sync(model=scripted) as runtime:
        ...     print(runtime.chat("Hello").output)
        Good morning.
        >>> scripted.check()
    """

    def __init__(self) -> None:
        self._left: deque[ScriptedReply] = deque()
        self._missing: list[str] = []
        super().__init__(self._next)

    def play(self, *replies: ScriptedReply) -> None:
        """Add replies to the script, in the order in which the model gives them.

        Args:
            *replies: Such as `say("Done.")`.
        """
        self._left.extend(replies)

    def check(self) -> None:
        """Check at the end of a test that the script fitted; the fixture does it.

        Raises:
            AssertionError: A reply was missing, or one is left over.
        """
        if self._missing:
            raise AssertionError(
                f"replies that the script lacks: {len(self._missing)}; the first was wanted after "
                f"{self._missing[0]}: add them with scripted.play"
            )
        if self._left:
            raise AssertionError(
                f"replies of the script that no model call used: {len(self._left)}; the first is "
                f"{self._left[0].steps}"
            )

    def _next(self, request: ModelRequest) -> ScriptedReply:
        if self._left:
            return self._left.popleft()
        last = request.messages[-1]
        self._missing.append(f"the message {str(last.content)[:80]!r}")
        raise ModelRefused(f"the script has no reply left after {self._missing[-1]}")
