"""A scripted model that also checks its script: no reply may be missing, and none left over."""

from collections import deque

from penstock.core.errors import ModelRefused
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply


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
