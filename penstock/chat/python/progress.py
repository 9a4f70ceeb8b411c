"""A bar on the terminal for `Runtime.map`; the one file of this package that loads rich."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn


class ProgressBar:
    """How many inputs are done, on standard error."""

    def __init__(self, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def advance(self) -> None:
        """Count one more input as done. The last one ends the bar."""
        self._progress.advance(self._task)
        if self._progress.finished:
            self._progress.stop()
