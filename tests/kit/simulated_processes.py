"""Scripts and counting tools in memory, over several simulated processes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from penstock.app.project import load_project
from penstock.app.runtime import Runtime
from penstock.app.settings import load
from penstock.builtins import TOOLS
from penstock.chat.requests import TaskReply
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Event, NoteEmitted
from penstock.core.ids import LogId, QuestionId, TaskId, new_id
from penstock.core.task import QuestionKind
from penstock.models.scripted import ScriptedModel
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act


class Stage:
    """A project in a folder with its storage in memory; each opened runtime acts as a process."""

    def __init__(
        self,
        folder: ProjectFolder,
        *acts: Act,
        place: MemoryStorage | None = None,
        model: ScriptedModel | None = None,
        **settings: Any,
    ) -> None:
        self._model = model
        self.place = place or MemoryStorage(clock=FakeClock())
        chosen = load(folder.root, cache_dir=str(folder.cache), **settings)
        self._project = load_project(chosen, tuple(acts))
        assert not self._project.diagnostics, self._project.diagnostics
        self._acts = acts
        self.task_id = TaskId(new_id("task"))

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Runtime]:
        """Open a runtime, as a new process does."""
        tools = [*TOOLS, *self._project.tools, *self._acts]
        options = {"model": self._model} | options
        async with memory_runtime(tools=tools, place=self.place, **options) as runtime:
            yield runtime

    async def call(self, tool_id: str, input: Mapping[str, Any] | None = None) -> Envelope:
        """Call a tool in a process that ends when the call ends or waits."""
        self.task_id = TaskId(new_id("task"))
        async with self.opened() as runtime:
            return await runtime.call(tool_id, dict(input or {}), task_id=self.task_id)

    async def output(self, tool_id: str, input: Mapping[str, Any] | None = None) -> Any:
        """Return what a call that succeeds returns."""
        envelope = await self.call(tool_id, input)
        assert envelope.ok, envelope.error
        return envelope.output

    async def questions(self) -> list[QuestionId]:
        """Return the ids of the open questions of the newest task, oldest first."""
        questions = await self.place.log.open_questions(LogId(self.task_id), self.task_id)
        return [each.question.question_id for each in questions]

    async def answer(self, body: Mapping[str, Any], number: int = 0) -> TaskReply:
        """Answer an open question of the newest task, in its own process."""
        asked = (await self.questions())[number]
        async with self.opened() as runtime:
            await runtime.requests.answer(asked, body)
            reply = await runtime.requests.wait(self.task_id)
        assert reply
        return reply

    async def wait(self) -> TaskReply:
        """Wait in another process until the newest task has ended or waits."""
        async with self.opened() as runtime:
            reply = await runtime.requests.wait(self.task_id)
        assert reply
        return reply

    async def survive(self, tool_id: str, input: Mapping[str, Any]) -> Envelope:
        """Call a tool once, in as many processes as needed; the log may kill them.

        Every question is answered with yes.
        """
        log, clock = self.place.log, self.place.clock
        assert isinstance(log, DyingLog)
        assert isinstance(clock, FakeClock)
        self.task_id, reply = TaskId(new_id("task")), None
        while reply is None:
            async with self.opened() as runtime:
                reply = await live(runtime, log, self._told(runtime, tool_id, input))
            log.revive()
            clock.advance(self.place.limits.lease_seconds + 1)
        assert reply.envelope, reply
        return reply.envelope

    async def events(self) -> list[Event]:
        """Return the events of the newest task."""
        return [each.event for each in await self.place.log.read(LogId(self.task_id))]

    async def notes(self, event_type: str) -> list[NoteEmitted]:
        """Return the notes with this event type."""
        notes = [each for each in await self.events() if isinstance(each, NoteEmitted)]
        return [each for each in notes if each.event_type == event_type]

    async def printed(self) -> list[str]:
        """Return the lines of the console."""
        return [each.payload["text"] for each in await self.notes("script.console")]

    async def outcomes(self, tool_id: str) -> list[Envelope]:
        """Return how the calls of a tool ended."""
        settled = [each for each in await self.events() if isinstance(each, CallSettled)]
        return [each.envelope for each in settled if each.tool_id == tool_id]

    async def _told(self, runtime: Runtime, tool_id: str, input: Mapping[str, Any]) -> TaskReply:
        if not await self.place.log.read(LogId(self.task_id)):
            await runtime.call(tool_id, dict(input), task_id=self.task_id)
        while True:
            reply = await runtime.requests.wait(self.task_id)
            assert reply
            if not reply.questions:
                return reply
            question = reply.questions[0].question
            is_approval = question.kind is QuestionKind.APPROVAL
            body = {"decision": "approve"} if is_approval else {"text": "yes"}
            await runtime.requests.answer(question.question_id, body)
