"""What the code of others ran into: it is told, and nothing else fails with it."""

from types import TracebackType
from typing import Self


class CaughtError:
    """Takes what is raised in its block, but for what ends a task or the process."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Keep what was raised."""
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None

    def __str__(self) -> str:
        """Return it in one line; nothing where nothing was raised."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"
