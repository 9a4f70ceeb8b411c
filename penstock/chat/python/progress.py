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
        """Count one more input as done."""
        self._progress.advance(self._task)

    def stop(self) -> None:
        """End the thread that draws the bar, and show the cursor again."""
        self._progress.stop()
