"""A live view of a run in a notebook; the one file that loads IPython.

How: the view folds the events of the run into Markdown and updates one display. A run of an async
program is followed by a task in the loop of the notebook, so its cell ends at once; a SyncRun keeps
its cell until nothing moves. The view reads only: closing the notebook does not touch the task.

Shown by tests/chat/python/test_live_view.py, and in a real kernel by tests/journeys/test_notebook.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from IPython import get_ipython
from IPython.display import Markdown, display

from penstock.chat.python.public_events import (
    Answered,
    Asked,
    Ended,
    Event,
    HandedOff,
    Notice,
    OutputDelta,
    StepEnded,
    StepStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from penstock.chat.python.run_events import RESTARTED
from penstock.core.clock import SystemClock
from penstock.core.json_values.json_text import compact
from penstock.core.text import cut

_display: Callable[..., Any] = display
_markdown: Callable[[str], Any] = Markdown
TASK_NAME = "penstock-live-view"
_SECONDS = 0.1
"""The least time between two updates: a browser draws no faster."""
_INPUT_CHARACTERS = 120
_views = set[asyncio.Task[None]]()
"""The views that are being updated. Without a reference, asyncio may drop a task."""


class RunView:
    """The state of a run as Markdown."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[str, tuple[str, str]] = {}
        """For each call of a model its line, and how it ended."""
        self._questions: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._output: str | None = None
        self._status = "running"

    def feed(self, event: Event) -> None:
        """Fold an event."""
        match event:
            case Text(text=text, depth=0):
                self._text.append(text)
            case Notice(code=code, depth=0) if code == RESTARTED:
                self._text.clear()
            case HandedOff(agent=agent):
                self._text.append(f"\n\n*{agent} continues.*\n\n")
            case OutputDelta(partial=partial, depth=0):
                self._output = compact(partial)
            case Ended(status=status):
                self._status = status
            case _:
                self._work(event)

    def _work(self, event: Event) -> None:
        match event:
            case ToolCalled(call_id=call_id, name=name, input=input, depth=depth):
                shown = _code(cut(f"{name} {compact(input)}", _INPUT_CHARACTERS))
                self._calls[call_id] = f"{'  ' * depth}- {shown}", "…"
            case ToolReturned(call=call) if call.id in self._calls:
                self._calls[call.id] = self._calls[call.id][0], call.status
            case Asked(question=question):
                choices = f" ({', '.join(question.options)})" if question.options else ""
                self._questions[question.id] = f"{question.text}{choices} {_code(question.id)}"
            case Answered(question=question):
                self._questions.pop(question.id, None)
            case StepStarted(step=step):
                self._steps[step] = "…"
            case StepEnded(step=step, outcome=outcome):
                self._steps[step] = outcome
            case _:
                pass

    @property
    def markdown(self) -> str:
        """The run so far."""
        lines = [f"- step {_code(step)} {outcome}" for step, outcome in self._steps.items()]
        lines += [f"{line} {status}" for line, status in self._calls.values()]
        parts = ["\n".join(lines)]
        # The text of a typed answer is the output, or a part of it.
        parts.append("".join(self._text) if self._output is None else _block(self._output))
        parts += [f"**waiting for an answer**: {each}" for each in self._questions.values()]
        if self._status != "succeeded":
            parts.append(f"*{self._status}*")
        return "\n\n".join(part for part in parts if part)


def show(run: Any) -> None:
    """Show a Run, and update it in the loop of the notebook until nothing moves.

    Raises NotImplementedError in a terminal, as IPython wants it: then it prints the run.
    """
    display = _Display()
    task = asyncio.get_running_loop().create_task(_follow(run, display), name=TASK_NAME)
    _views.add(task)
    task.add_done_callback(_views.discard)


def show_sync(run: Any) -> None:
    """Show a SyncRun, and update it until nothing moves. Raises as `show`."""
    display = _Display()
    try:
        for event in run.events():
            display.take(event)
    finally:
        display.draw()


async def _follow(run: Any, display: "_Display") -> None:
    try:
        async for event in run.events():
            display.take(event)
    finally:
        display.draw()


class _Display:
    """One display of a notebook. Raises NotImplementedError where none can be updated."""

    def __init__(self) -> None:
        if getattr(get_ipython(), "kernel", None) is None:
            raise NotImplementedError
        self._view, self._clock, self._due = RunView(), SystemClock(), 0.0
        self._handle: Any = _display(_markdown(self._view.markdown), display_id=True)

    def take(self, event: Event) -> None:
        """Fold an event, and draw if the last time was long enough ago."""
        self._view.feed(event)
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + _SECONDS
            self.draw()

    def draw(self) -> None:
        """Draw the view."""
        self._handle.update(_markdown(self._view.markdown))


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _block(text: str) -> str:
    return f"```json\n{text}\n```"
