"""Calls one tool directly, as the HTTP API does; `--trace` prints the hops."""

import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Annotated, Any, cast

import typer

from penstock.app.runtime import Runtime, outcome_of
from penstock.app.runtime_parts import ToolParts
from penstock.chat.calls.direct_tools import DirectTools, how_to_allow
from penstock.chat.key_values import Read, read_pairs
from penstock.chat.requests import NewCall, TaskReply
from penstock.cli.completion import direct_tools
from penstock.cli.interaction.asking import Asker, show_waiting
from penstock.cli.interaction.loop_thread import Background, TaskStopper, on_interrupt
from penstock.cli.options import ProjectFolder, SkillNames, ToolInput, read_object
from penstock.cli.project import opened, selected
from penstock.cli.terminal.exit_codes import FAILED, INTERRUPTED, OF_CALLS
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import envelope_text
from penstock.cli.terminal.timeline import Timeline, Trace
from penstock.core.call_errors import InvalidInput, ToolNotFound
from penstock.core.envelope import Envelope, Status
from penstock.core.ids import ASSISTANT, QuestionId, TaskId, new_id
from penstock.core.json_values.schema import Problem
from penstock.core.task import QuestionRecord
from penstock.tools.tool import Tool

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="TOOL [KEY=VALUE]",
        help="The tool's id, followed by its input as KEY=VALUE pairs.",
        autocompletion=direct_tools,
    ),
]
WithTrace = Annotated[bool, typer.Option("--trace", help="Print every hop of the call.")]


def call(
    words: Words,
    *,
    input_text: ToolInput = None,
    skills: SkillNames = None,
    with_trace: WithTrace = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool that allows direct calls, and print its outcome.

    Exit codes: 0 success, 1 failed, 3 invalid input, 4 waiting for a person. Ctrl-C cancels the
    call; a second Ctrl-C exits at once.
    """
    tool, *pairs = words
    trace, context = Trace(), opened(project, tool)
    with Background() as background:
        runtime = background.enter(context)
        try:
            known = runtime.parts.tools.invoker.registry.by_id.get(tool)
            members, problems = _members(known, pairs)
            asked = NewCall(
                tool_id=tool,
                input=read_object(input_text, "--input") | members,
                selected_skills=selected(runtime, ASSISTANT, skills or []),
            )
            watched = WatchedCall(runtime, background, is_asking=sys.stdin.isatty() and not as_json)
            refusal = not_direct(known) or _refused(
                runtime.parts.tools, known, asked.input, problems
            )
            if refusal is None:
                envelope = watched.outcome(
                    _watched(watched.requested(asked), trace, is_wanted=with_trace)
                )
                watched.show_waiting(envelope)
            else:
                envelope = refusal.envelope()
        finally:
            background.leave(context)
    if with_trace:
        note(trace.text())
    if as_json:
        print_json(envelope.to_wire())
    else:
        say(envelope_text(envelope))
        if known is None:
            note("Run `penstock tools list --direct` to see the tools that you can call.")
    raise typer.Exit(watched.code(envelope))


def not_direct(tool: Tool | None) -> ToolNotFound | None:
    """Return why an existing tool does not allow direct calls; None if it does."""
    if tool is None or tool.spec.direct_call:
        return None
    message = f"the tool {tool.spec.tool_id!r} does not allow direct calls: "
    trial = "" if tool.spec.is_broken else "; to try it, use `penstock run-tool`"
    return ToolNotFound(message + how_to_allow(tool.spec) + trial)


def _refused(
    tools: ToolParts, tool: Tool | None, input: dict[str, Any], problems: Sequence[Problem]
) -> InvalidInput | None:
    """Return all problems of the input, if any KEY=VALUE pair cannot be parsed."""
    if tool is None or not problems:
        return None
    try:
        DirectTools(tools.invoker).check(tool, input, problems)
    except InvalidInput as error:
        return error
    return None


def _members(tool: Tool | None, pairs: list[str]) -> Read:
    """Parse KEY=VALUE pairs by the tool's schema. A repeated key is a list."""
    split = [pair.partition("=") for pair in pairs]
    for (key, equals, _), pair in zip(split, pairs, strict=True):
        if not equals or not key:
            raise typer.BadParameter(f"an input has the form KEY=VALUE, found {pair!r}")
    schema = tool.spec.input_schema if tool else {}
    return read_pairs(schema, [(key, text) for key, _, text in split])


class WatchedCall:
    """A running call: shows its events, asks its questions, and cancels it at Ctrl-C.

    The methods run in the main thread; the coroutines run in the background event loop.
    """

    def __init__(self, runtime: Runtime, background: Background, *, is_asking: bool) -> None:
        self._runtime = runtime
        self._background = background
        self._asker = Asker(runtime, background) if is_asking else None
        self._task_id = TaskId(new_id("task"))
        self._timeline = Timeline(runtime, self._task_id, asks=False)
        self._stopper: TaskStopper | None = None

    async def requested(self, asked: NewCall) -> Envelope:
        """Start the call, and wait until it is settled or waits for a person."""
        await self._runtime.start_call(asked, task_id=self._task_id)
        return await self._now()

    def outcome(self, work: Coroutine[Any, Any, Envelope]) -> Envelope:
        """Wait for the outcome. Puts the call's questions to the person if there is one."""
        envelope = self._settled(work)
        while self._asker is not None and envelope.status is Status.SUSPENDED:
            try:
                if not self._answer(self._asker, envelope):
                    break
            except KeyboardInterrupt:
                self._stop()
            envelope = self._settled(self._now())
        return envelope

    def show_waiting(self, envelope: Envelope) -> None:
        """Show the questions that the call still waits for, and how to answer them."""
        records = (self._question(each) for each in _waiting(envelope))
        show_waiting([each for each in records if each is not None])

    def code(self, envelope: Envelope) -> int:
        """Return the exit code."""
        if self._stopper is not None and not envelope.ok:
            return INTERRUPTED
        return OF_CALLS.get(envelope.status, FAILED)

    def _settled(self, work: Coroutine[Any, Any, Envelope]) -> Envelope:
        """Wait until the call is settled or waits for a person.

        The first Ctrl-C cancels the call and limits the wait; a second one, or the end of that
        time, exits the process.
        """
        feed = self._background.feed(_alone(work))
        with on_interrupt(feed.interrupt):
            while True:
                try:
                    envelope = feed.take(self._stopper.seconds if self._stopper else None)
                except (KeyboardInterrupt, TimeoutError):
                    self._stop()
                else:
                    return cast("Envelope", envelope)

    def _stop(self) -> None:
        if self._stopper is not None:
            self._stopper.leave()
        self._stopper = TaskStopper(self._runtime, self._background, self._task_id)

    def _answer(self, asker: Asker, envelope: Envelope) -> bool:
        """Ask the questions of the call; False if the person answers later."""
        records = (self._question(each) for each in _waiting(envelope))
        return any(asker.meet(each) for each in records if each is not None)

    def _question(self, question_id: QuestionId) -> QuestionRecord | None:
        find = self._runtime.parts.storage.projections.find_question(question_id)
        return self._background.do(find)

    async def _now(self) -> Envelope:
        """Show events until the call ends or waits for a person; return its outcome."""
        await self._timeline.show()
        reply = await self._runtime.requests.wait(self._task_id)
        return outcome_of(cast("TaskReply", reply))


def _waiting(envelope: Envelope) -> list[QuestionId]:
    """Return the questions that the call waits for."""
    if envelope.status is not Status.SUSPENDED or envelope.error is None:
        return []
    return [QuestionId(each) for each in (envelope.error.details or {})["question_ids"]]


async def _alone(work: Coroutine[Any, Any, Envelope]) -> AsyncIterator[Envelope]:
    yield await work


async def _watched(
    work: Coroutine[Any, Any, Envelope], trace: Trace, *, is_wanted: bool
) -> Envelope:
    with trace.watch(is_wanted=is_wanted):
        return await work
