"""Direct calls and slash commands: tasks of a person or a program that run without a model.

A direct call is the only call of its task, and a command makes at most one. Its identity is its
tool and its input, so a task that resumes finds the call in the ledger.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.accounts.web_links import WEB_LINK_SECONDS
from penstock.agents.agent import DEFAULTS, ChatSettings
from penstock.chat.calls.direct_tools import DirectTools
from penstock.chat.inbox import start_of_call
from penstock.chat.key_values import needs, read_input, usage
from penstock.chat.participants import Participants
from penstock.chat.session import profile_of
from penstock.chat.wire_forms import envelope_part
from penstock.core.call import EXECUTE_WORKFLOW, Call, CallPath, Origin, ToolCall
from penstock.core.call_errors import CallError, NotAvailable
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound, Suspend
from penstock.core.events.events import (
    CallRequested,
    MessageReceived,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import CallId, MessageId, QuestionId, SessionId
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.core.task import Question, QuestionKind, TaskStatus
from penstock.core.text import cut, one_line
from penstock.engine.budget import Budget
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState
from penstock.engine.slash_commands import NEW, MissingArgument, clears_history, command_parts
from penstock.engine.suspend import ask, park, withdraw
from penstock.engine.task_state import TaskState
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller
from penstock.tools.skills import TaskSkills

NAMELESS = CallId("")
"""The iteration in the path of a call without a message."""


class DirectCalls:
    """Makes direct calls, each the only call of its task; `work` is the body of such a task."""

    def __init__(
        self, invoker: Invoker, participants: Participants, clock: Clock, *, key: bytes
    ) -> None:
        self._invoker = invoker
        self._participants = participants
        self._clock = clock
        self._key = key

    async def work(self, held: HeldLog, task: TaskState, brief: CallRequested) -> None:
        """Run the call until it is settled or waits."""
        if task.started is None:
            held.add(start_of_call(brief), task.task_id)
        profile = Profile.from_noted(brief.profile_id, brief.permissions)
        caller = self.caller(held.state, profile, brief.selected_skills)
        call = ToolCall(NAMELESS, brief.tool_id, dict(brief.input))
        await self.end_with(self.make(held, task, call, caller), held, task)

    async def end_with(self, outcome: Awaitable[Envelope], held: HeldLog, task: TaskState) -> None:
        """End the task with an outcome, or suspend it while that waits for a person."""
        arrivals_before = task.waits.arrivals
        try:
            envelope = await outcome
        except Suspend:
            park(held, task, arrivals_before=arrivals_before)
            return
        if task.waits.waiting:
            withdraw(held, task)
        ended = TaskEnded(
            status=TaskStatus.SUCCEEDED if envelope.error is None else TaskStatus.FAILED,
            usage=task.spent.usage(),
            error=envelope.error,
            envelope=envelope,
        )
        held.add(ended, task.task_id)

    async def make(
        self,
        held: HeldLog,
        task: TaskState,
        call: ToolCall,
        caller: Caller,
        *,
        place: str = "0",
        invoker: Invoker | None = None,
    ) -> Envelope:
        """Run the call until it is settled. Raises Suspend while it waits for a person.

        `place` is its place in the task: two equal calls in one place are the same call.
        """
        ledger = self.ledger(held, task)
        path = ledger.occurrences(f"{task.task_id}/{place}").path(call.name, call.arguments)
        made = Call(path, call.name, dict(call.arguments), call_id=call.call_id or None)
        return await (invoker or self._invoker).call(made, caller, ledger)

    def ledger(self, held: HeldLog, task: TaskState) -> Ledger:
        """Return the ledger of the task."""
        return Ledger(held, task, Budget(DEFAULTS.allowance, task.spent, self._clock), self._key)

    def caller(self, state: SessionState, profile: Profile, named: tuple[str, ...] = ()) -> Caller:
        """Return the caller, with the skills of the session and the given ones."""
        skills = TaskSkills(
            self._participants.skills,
            state,
            lambda: self._settings(state).skill_choice,
            profile=profile,
            named=named,
        )
        # No skill grants a direct call; calls that it makes take the selection at their start.
        return Caller(origin=Origin.DIRECT, profile=profile, skills=skills)

    def reader(self, state: SessionState, caller: Caller) -> Caller:
        """Return the caller with the output limits of the session's agent."""
        return replace(caller, clip_at=self._settings(state).result_max_chars)

    def _settings(self, state: SessionState) -> ChatSettings:
        """Return the settings of the session's agent; the defaults if the agent was removed."""
        try:
            return self._participants.agent(state.agents.newest).settings
        except NotFound:
            return DEFAULTS


CALL, WEB = "call", "web"
MakeLink = Callable[[SessionId, Profile], Awaitable[str]]
"""Creates a link to a conversation of a profile."""
COMMANDS = (CALL, WEB, NEW)
ArgumentsOf = Callable[[str], Mapping[str, MissingArgument]]
"""Returns what a flow still needs: `task`, and inputs by name. Raises NotFound, which names the
nearest flow.
"""
TASK = "task"
NOT_STARTED = "Nothing was started: the flow needs"
STARTED = "What was said before is not read any more, and no skill is selected. Go on."
_NAME_CHARACTERS = 64
_MAX_NAMED = 30
"""Commands and flows to list if no name was given."""


class CommandReply(Struct, frozen=True):
    """The answer of a command."""

    text: str
    envelope: Envelope | None = None
    """The outcome of the command's call."""


class CommandWork:
    """The body of a task that is a slash command."""

    def __init__(
        self,
        calls: DirectCalls,
        tools: DirectTools,
        link: MakeLink | None,
        *,
        arguments_of: ArgumentsOf,
        world: World,
    ) -> None:
        self._calls = calls
        self._tools = tools
        self._link = link
        self._arguments_of = arguments_of
        self._minutes = WEB_LINK_SECONDS // 60
        self._new_id = world.new_id

    @staticmethod
    def start(message: MessageReceived) -> TaskStarted:
        """Return the start event of a command's task."""
        name = cut(command_parts(message.content)[0], _NAME_CHARACTERS) or "/"
        return TaskStarted(command=name, is_fresh=clears_history(message.content))

    async def work(self, held: HeldLog, task: TaskState, message: MessageReceived | None) -> None:
        """Run the command until it has an answer or waits."""
        if task.started is None and message is not None:
            held.add(self.start(message), task.task_id)
        arrivals_before = task.waits.arrivals
        try:
            answered = await self._answered(held, task, message)
        except Suspend:
            park(held, task, arrivals_before=arrivals_before)
            return
        if task.waits.waiting:
            withdraw(held, task)
        ended = TaskEnded(
            status=TaskStatus.SUCCEEDED,
            message_id=MessageId(self._new_id("msg")),
            content=answered.text,
            finish_reason="stop",
            usage=task.spent.usage(),
            envelope=answered.envelope,
        )
        held.add(ended, task.task_id)

    async def _answered(
        self, held: HeldLog, task: TaskState, message: MessageReceived | None
    ) -> CommandReply:
        profile = profile_of(held.state, message)
        if message is None and not task.main.rounds:
            return CommandReply("")
        name, rest = command_parts(message.content) if message else (CALL, "")
        try:
            if name == CALL or message is None:
                return await self._call(held, task, message, rest)
            if name == WEB:
                return CommandReply(await self._web(rest, held, profile))
            if name == NEW:
                return CommandReply(STARTED)
            return await self._run(held, task, message)
        except CallError as error:
            return CommandReply(f"{error.code}: {error}")

    async def _web(self, rest: str, held: HeldLog, profile: Profile) -> str:
        """Return a link to the conversation."""
        if rest:
            raise NotAvailable("pages cannot be read yet: this project has no browse_url")
        if self._link is None:
            raise NotAvailable("links need a database, and nothing is kept here")
        link = await self._link(SessionId(held.state.log_id), profile)
        return f"Open this conversation in a browser, once, within {self._minutes} minutes: {link}"

    async def _call(
        self, held: HeldLog, task: TaskState, message: MessageReceived | None, rest: str
    ) -> CommandReply:
        """Make or resume the call; without a tool, list the tools."""
        profile = profile_of(held.state, message)
        if not task.main.rounds:
            if not rest:
                return CommandReply(self._listed(profile))
            tool_id, *text = rest.split(maxsplit=1)
            call = self._read(tool_id, "".join(text), profile)
            if isinstance(call, str):
                return CommandReply(call)
            self._note(held, task, call)
        (call,) = task.main.rounds[-1].reply.calls
        named = message.selected_skills if message else ()
        caller = self._calls.caller(held.state, profile, named)
        envelope = await self._calls.make(held, task, call, self._calls.reader(held.state, caller))
        settled = task.main.rounds[-1].settled.get(call.call_id)
        clipped = settled.context if settled is not None and settled.artifact_id else None
        return CommandReply(_outcome(envelope, clipped), envelope)

    async def _run(self, held: HeldLog, task: TaskState, message: MessageReceived) -> CommandReply:
        """Start or resume the flow, by a call of the tool that models use too."""
        name, rest = command_parts(message.content)
        if not task.main.rounds:
            try:
                arguments = await asyncio.to_thread(self._arguments_of, name)
            except NotFound as error:
                return CommandReply(_unknown(name, error))
            values: dict[str, Any] = {TASK: rest} if rest else {}
            for key in [each for each in arguments if each not in values]:
                answer = await self._answer_of(held, task, key, arguments[key].question)
                if not answer:
                    needed = "a task" if key == TASK else repr(key)
                    return CommandReply(f"{NOT_STARTED} {needed}.")
                values[key] = arguments[key].value_of(answer)
            request = {"workflowId": name, "input": values}
            self._note(held, task, ToolCall(CallId(self._new_id("tc")), EXECUTE_WORKFLOW, request))
        (call,) = task.main.rounds[-1].reply.calls
        profile = profile_of(held.state, message)
        caller = self._calls.caller(held.state, profile, message.selected_skills)
        caller = replace(caller, origin=Origin.FLOW, agent_tools=frozenset({EXECUTE_WORKFLOW}))
        envelope = await self._calls.make(held, task, call, caller)
        return CommandReply(_summary(envelope), envelope)

    async def _answer_of(self, held: HeldLog, task: TaskState, key: str, text: str) -> str:
        """Ask for one argument of the flow; return the answer, empty if there is none."""
        question = Question(
            question_id=QuestionId(self._new_id("q")),
            kind=QuestionKind.TASK,
            text=text,
            path=CallPath(f"{task.task_id}/{key if key == TASK else f'input/{key}'}"),
            form={"type": "input"},
        )
        answered = await ask(self._calls.ledger(held, task), question)
        return str(answered.answer.get("value", "")).strip()

    def _read(self, tool_id: str, text: str, profile: Profile) -> ToolCall | str:
        """Parse the call that a person typed; on errors return them with the usage."""
        tool = self._tools.get(tool_id, profile)
        schema = tool.spec.input_schema
        typed, problems = read_input(schema, text)
        try:
            self._tools.check(tool, typed, problems)
        except CallError as error:
            return f"{error.status.value}: {error}\nusage: {usage(tool_id, schema)}"
        return ToolCall(CallId(self._new_id("tc")), tool_id, typed)

    @staticmethod
    def _note(held: HeldLog, task: TaskState, call: ToolCall) -> None:
        """Add the request of the command's call."""
        calls = (call,)
        reply = ReplyReceived(iteration=0, base=0, text="", message_id=MessageId(""), calls=calls)
        held.add(reply, task.task_id)

    def _listed(self, profile: Profile) -> str:
        specs = [each.spec for each in self._tools.list_for(profile)]
        lines = ["Direct-call tools:"]
        for spec in specs:
            needed = ", ".join(needs(spec.input_schema))
            takes = f"needs: {needed}" if needed else "no input needed"
            lines.append(f"- {spec.tool_id}: {one_line(spec.description)} ({takes})")
        return "\n".join(lines) if specs else "No direct-call tools are available."


def _unknown(name: str, why: NotFound) -> str:
    """Return the answer to an unknown command; `why` may name the nearest flow."""
    names = [*COMMANDS, *why.known]
    known = ", ".join(f"/{each}" for each in names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        known += f" and {len(names) - _MAX_NAMED} more"
    _, dot, hint = str(why).partition(". Did you mean")
    return (
        f'Unknown command "/{cut(name, _NAME_CHARACTERS)}". Known commands: {known}. '
        f"{f'Did you mean the flow{hint} ' if dot else ''}"
        "Begin with // to send the text as it is."
    )


def _summary(envelope: Envelope) -> str:
    """Return the last summary of a flow run, or why there is none."""
    if envelope.error is not None:
        details = envelope.error.details or {}
        return str(details.get("message") or envelope.error.message)
    done = envelope.output or {}
    result = done.get("output") or {}
    last = result.get("lastResult") or {}
    return str(result.get("reason") or last.get("summary") or done.get("status", ""))


def _outcome(envelope: Envelope, clipped: str | None) -> str:
    """Return an outcome for people: its envelope, shortened if long."""
    if clipped is not None:
        return f"{envelope.status.value}: {clipped}"
    return json.dumps(envelope_part(envelope), indent=2, ensure_ascii=False)
