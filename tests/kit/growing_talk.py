"""A folded session that a test extends, and the messages that its agent reads."""

from collections.abc import Sequence

from penstock.agents.transcript import Transcript
from penstock.core.call import CallPath
from penstock.core.events.events import CallSettled, Event, TaskStarted
from penstock.core.ids import TaskId
from penstock.core.messages import Message, StoredFile, Usage
from penstock.engine.dialogue import Dialogue
from penstock.engine.session_state import SessionState
from tests.kit.session_events import LOG, ended, message, outcome, path_of, reply

Files = tuple[StoredFile, ...]


class Talk:
    """A session that the test extends."""

    def __init__(self) -> None:
        self.state = SessionState(LOG)
        self._log: list[tuple[Event, TaskId, CallPath | None]] = []
        self._tasks = 0

    def task(self, content: str, answer: str = "", counted: int = 0, files: Files = ()) -> "Talk":
        self._tasks += 1
        self.happen(message(content, attachments=files), TaskStarted())
        if answer:
            self.happen(reply(1, text=answer, usage=Usage(input_tokens=counted)), ended())
        return self

    def happen(self, *events: Event) -> "Talk":
        task_id = TaskId(f"task_{self._tasks}")
        for event in events:
            path = path_of(str(event.call_id)) if isinstance(event, CallSettled) else None
            self._log.append((event, task_id, path))
            self.state.apply(event, task_id, path, 0)
        return self

    def round(self, name: str, context: str, counted: int = 0, preview: str = "") -> "Talk":
        usage = Usage(input_tokens=counted)
        number = 1 + (self.state.current.main.iteration if self.state.current else 0)
        settled = outcome(name, context=context, preview=preview or None)
        return self.happen(reply(number, name, usage=usage), settled)

    @property
    def current(self) -> Dialogue:
        assert self.state.current
        return self.state.current.main

    def again(self) -> SessionState:
        """Return the state of a process that folds the log."""
        state = SessionState(LOG)
        for event, task_id, path in self._log:
            state.apply(event, task_id, path, 0)
        return state

    def transcript(self, limit: int, system: str = "") -> Transcript:
        return Transcript(self.current, system=system, limit=limit)

    def read(self, transcript: Transcript, *, too_long: bool = False) -> list[str]:
        """Return what the next request has, after a cut if it needs one."""
        messages = transcript.messages()
        if too_long or transcript.is_crowded:
            cut = transcript.cut((), too_long=too_long)
            if cut is not None:
                self.happen(cut)
            messages = transcript.again()
        return contents(messages)


def contents(messages: Sequence[Message]) -> list[str]:
    return [each.content for each in messages]
