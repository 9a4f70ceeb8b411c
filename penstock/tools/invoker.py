"""The one door every tool call goes through."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, cast

from penstock.core.call import Call, Effect, Origin
from penstock.core.canonical import is_larger
from penstock.core.clock import Clock, Moment
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import (
    BudgetExceeded,
    CallError,
    Interrupted,
    InvalidInput,
    InvalidOutput,
    NotPermitted,
    Rejected,
    ToolFailed,
    ToolNotFound,
    ToolTimeout,
)
from penstock.core.events import CallRetried, CallSettled, StoredFile
from penstock.core.ids import QuestionId
from penstock.core.question import Question, QuestionKind, QuestionStatus
from penstock.core.schema import Problem, json_problems
from penstock.core.signals import LeaseLost, Signal
from penstock.core.text import cut, size_text
from penstock.core.world import World
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import ask
from penstock.tools.artifacts import Artifacts
from penstock.tools.invocation import Inside, Invocation, Nest
from penstock.tools.policy import Caller, refused
from penstock.tools.registry import Registry
from penstock.tools.rules import Action, Rules
from penstock.tools.spec import ToolSpec
from penstock.tools.threads import Threads
from penstock.tools.tool import Tool

log = logging.getLogger(__name__)


class Invoker:
    """Calls tools for a model, a script, a slash command, an HTTP client or a flow.

    Every caller gets an Envelope. Only Signals and cancellation pass through.
    """

    def __init__(
        self,
        registry: Registry,
        rules: Rules,
        artifacts: Artifacts,
        *,
        world: World,
        threads: Threads | None = None,
    ) -> None:
        self.registry = registry
        self.rules = rules
        self.threads = threads or Threads(world.limits.tool_threads)
        """Where synchronous tools run; close it with the runtime."""
        self._artifacts = artifacts
        self._clock = world.clock
        self._limits = world.limits
        self._new_id = world.new_id
        self._inside = Inside(
            door=self.call,
            effect_of=self._effect_of,
            artifacts=artifacts,
            threads=self.threads,
            world=world,
        )

    async def call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: Nest | None = None
    ) -> Envelope:
        """Replay, resolve, permit, validate, ask, reserve, run, check, settle."""
        if nest is not None:
            nest.calls += 1
        if settled := ledger.find(call.path):
            return await self._replay(settled, caller)
        run = _Run(call, caller, ledger)
        try:
            try:
                tool = run.tool = self._resolve(call, caller)
                self._validate(tool, call.input)
                agreed = await self._ask(tool, run, nest)
                self._reserve(run, nest)
                output = await self._run(tool, agreed, run)
                self._check(tool, output)
                envelope = Envelope(Status.SUCCESS, output)
            except CallError as error:
                envelope = error.envelope()
            return await self._settle(run, envelope)
        finally:
            run.give_back()

    def refuse(self, call: Call, ledger: Ledger, error: CallError, detector: str) -> CallSettled:
        """Settle a call that does not even come to the door."""
        envelope = error.envelope()
        settled = CallSettled(
            tool_id=call.tool_id,
            envelope=envelope,
            call_id=call.call_id,
            context=self._artifacts.error_text(_error_of(envelope)),
            ran=False,
            detector=detector or None,
        )
        ledger.settle(call.path, settled)
        return settled

    async def _replay(self, settled: CallSettled, caller: Caller) -> Envelope:
        """Return what was recorded; code gets all of it, a model has read its part."""
        if settled.artifact_blob is None or caller.clip_at is not None:
            return settled.envelope
        return await self._artifacts.whole(settled)

    def _resolve(self, call: Call, caller: Caller) -> Tool:
        tool = self.registry.find(call.tool_id)
        if tool and caller.origin is Origin.MODEL and self.rules.hides(tool.spec, caller):
            raise NotPermitted(f'a rule of this project forbids "{call.tool_id}"')
        refusal = ToolNotFound() if tool is None else refused(tool.spec, caller)
        if tool is None or isinstance(refusal, ToolNotFound):
            visible = [each.spec.tool_id for each in self.registry if self._sees(each, caller)]
            hint = did_you_mean(call.tool_id, visible)
            raise ToolNotFound(f"There is no tool {call.tool_id!r}.{hint}")
        if refusal is not None:
            raise refusal
        if self.rules.hides(tool.spec, caller):
            raise NotPermitted(f'a rule of this project forbids "{call.tool_id}"')
        return tool

    def _sees(self, tool: Tool, caller: Caller) -> bool:
        return refused(tool.spec, caller) is None and not self.rules.hides(tool.spec, caller)

    def _validate(self, tool: Tool, input: dict[str, Any]) -> None:
        problems = list(json_problems(input, self._limits.json_depth))
        if not problems and is_larger(input, most := self._limits.input_bytes):
            problems = [Problem("", f"is over {size_text(most)}")]
        if problems := problems or self.registry.schema(tool).problems(input):
            raise invalid(tool.spec.tool_id, problems)

    async def _ask(self, tool: Tool, run: "_Run", nest: Nest | None) -> dict[str, Any]:
        """Return the input that a person agreed to, where one has to; what was asked counts."""
        call = run.call
        action = self._decide(tool, run, call.input)
        if action is Action.ALLOW and not run.ledger.is_asked(call.path):
            return call.input
        answered = await ask(run.ledger, self._approval(tool, run, nest))
        answer = answered.answer
        if answered.status is QuestionStatus.CANCELLED:
            raise Rejected(f'"{call.tool_id}" was not approved: not answered in time')
        if answer.get("decision") != "approve":
            note = f": {answer['note']}" if answer.get("note") else ""
            raise Rejected(f'a person rejected this call of "{call.tool_id}"{note}')
        edited: dict[str, Any] | None = answer.get("input")
        if edited is None:
            return call.input
        self._decide(tool, run, edited)
        return edited

    def _decide(self, tool: Tool, run: "_Run", input: dict[str, Any]) -> Action:
        action = self.rules.decide(tool.spec, run.caller, input)
        if action is Action.DENY:
            raise NotPermitted(f'a rule of this project forbids this call of "{run.call.tool_id}"')
        return action

    def _approval(self, tool: Tool, run: "_Run", nest: Nest | None) -> Question:
        call, spec = run.call, tool.spec
        ttl = run.caller.question_ttl_seconds
        return Question(
            question_id=QuestionId(self._new_id("q")),
            kind=QuestionKind.APPROVAL,
            text=f'Run "{spec.tool_id}"? {cut(spec.description, self._limits.preview_chars)}',
            path=call.path,
            call_id=nest.call_id if nest else call.call_id,
            tool_id=spec.tool_id,
            input=call.input,
            input_schema=spec.input_schema,
            expires_at=None if ttl is None else Moment(self._clock.now() + round(1000 * ttl)),
        )

    def _reserve(self, run: "_Run", nest: Nest | None) -> None:
        if nest is None:
            nest = Nest(run.root, run.call.call_id)
        elif nest.calls > self._limits.nested_calls:
            at_most = self._limits.nested_calls
            raise BudgetExceeded(f"one call made more than {at_most} calls inside")
        run.ledger.budget.reserve_call()
        run.nest = nest

    async def _run(self, tool: Tool, input: dict[str, Any], run: "_Run") -> Any:
        """Run under the timeout, and again as the tool's retry policy says."""
        spec, ledger, call = tool.spec, run.ledger, run.call
        if spec.effect is Effect.WRITE:
            await ledger.start(call, again=spec.idempotent or spec.is_frame)
        run.began = self._clock.monotonic()
        attempt = 1
        while True:
            try:
                return await self._attempt(tool, input, run, attempt)
            except CallError as error:
                if not error.retryable or attempt >= spec.retry.max_attempts:
                    raise
                detail = _error_of(error.envelope())
                event = CallRetried(tool_id=spec.tool_id, attempt=attempt, error=detail)
                ledger.retry(call.path, event)
                await ledger.held.commit()
                await self._clock.sleep(spec.retry.backoff_ms(attempt) / 1000)
                attempt += 1

    async def _attempt(self, tool: Tool, input: dict[str, Any], run: "_Run", attempt: int) -> Any:
        spec = tool.spec
        seconds, left = spec.timeout_ms / 1000, run.ledger.budget.seconds_left()
        given = max(min(seconds, left), 0)
        invocation = run.invocation = Invocation(
            run.call, spec, run.caller, ledger=run.ledger, inside=self._inside
        )
        invocation.enter(run.nest or Nest(None), attempt, self._clock.monotonic() + given)
        limit = asyncio.timeout(given)
        try:
            async with limit:
                return await _enter(tool, input, invocation)
        except CallError:
            raise
        except BaseExceptionGroup as group:
            raise self._failure(spec, _foremost(group)) from group
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if limit.expired():
                raise _out_of_time(tool, seconds, left) from None
            raise self._failure(spec, error) from error
        except asyncio.CancelledError:
            self._cut(tool, run)
            raise

    def _failure(self, spec: ToolSpec, error: BaseException) -> BaseException:
        """Return what a tool's own error means for its caller."""
        if isinstance(error, CallError | Signal):
            return error
        log.error("tool %s failed", spec.tool_id, exc_info=error)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return ToolFailed(f"the tool tried to end the process ({error!r})")
        return ToolFailed(cut(f"{type(error).__name__}: {error}", self._limits.error_chars))

    def _cut(self, tool: Tool, run: "_Run") -> None:
        """Record that a write inside another call was cut by that call: nobody may run it again."""
        if tool.spec.effect is Effect.WRITE and run.call.depth and not tool.spec.is_frame:
            error = Interrupted(
                f'"{run.call.tool_id}" was cut in the middle: it may or may not have happened'
            )
            settled = CallSettled(tool_id=run.call.tool_id, envelope=error.envelope())
            run.ledger.settle(run.call.path, settled)

    def _check(self, tool: Tool, output: Any) -> None:
        schema = self.registry.output_schema(tool)
        if schema is not None and (problems := schema.problems(output)):
            said = "; ".join(str(problem) for problem in problems)
            message = f'output of "{tool.spec.tool_id}" is not valid: {said}'
            raise InvalidOutput(message, details=_found(problems))

    async def _settle(self, run: "_Run", envelope: Envelope) -> Envelope:
        call, clip_at = run.call, run.caller.clip_at
        own_preview = run.tool.preview if run.tool else None
        try:
            shown = await self._artifacts.show(envelope, own_preview, clip_at=clip_at)
        except CallError as error:
            envelope = error.envelope()
            shown = await self._artifacts.show(envelope, None, clip_at=clip_at)
        settled = CallSettled(
            tool_id=call.tool_id,
            envelope=shown.envelope,
            call_id=call.call_id,
            context=shown.context,
            preview=shown.preview,
            ran=run.nest is not None,
            duration_ms=run.duration_ms(self._clock),
            artifact_id=shown.artifact_id,
            artifact_blob=shown.artifact_blob,
            total_characters=shown.total_characters,
            files=(*run.files, *shown.files),
        )
        run.ledger.settle(call.path, settled)
        await self._let_go_on(run)
        return envelope if clip_at is None else shown.envelope

    async def _let_go_on(self, run: "_Run") -> None:
        """Return when the code around a call may see its outcome.

        A write inside another call is noted first: while it is not, a crash of the code around it
        looks like a crash inside, and the code would be entered again.
        """
        held = run.ledger.held
        if run.call.depth and self._effect_of(run.call.tool_id) is Effect.WRITE:
            await held.commit()
        await held.make_sure()

    def _effect_of(self, tool_id: str) -> Effect:
        tool = self.registry.find(tool_id)
        return Effect.NONE if tool is None else tool.spec.effect


class _Run:
    """One call on its way through the door."""

    __slots__ = ("began", "call", "caller", "invocation", "ledger", "nest", "tool")

    def __init__(self, call: Call, caller: Caller, ledger: Ledger) -> None:
        self.call = call
        self.caller = caller
        self.ledger = ledger
        self.tool: Tool | None = None
        self.nest: Nest | None = None
        """Set once the call is reserved."""
        self.began: float | None = None
        self.invocation: Invocation | None = None
        """The newest entry."""

    @property
    def root(self) -> ToolSpec | None:
        """The tool, when it is a direct call at the root."""
        if self.tool is None or self.caller.origin is not Origin.DIRECT:
            return None
        return self.tool.spec

    @property
    def files(self) -> list[StoredFile]:
        """Return what the tool kept beside its output."""
        return self.invocation.files if self.invocation else []

    def give_back(self) -> None:
        """Return the reservation: the log has the call now, or it waits."""
        if self.nest is not None:
            self.ledger.budget.settle_call()

    def duration_ms(self, clock: Clock) -> int:
        """Return how long the tool ran in this entry."""
        return 0 if self.began is None else round(1000 * (clock.monotonic() - self.began))


async def _enter(tool: Tool, input: dict[str, Any], invocation: Invocation) -> Any:
    """Run the tool once, with all that it started; what ended a call inside ends it too."""
    is_cut = False
    try:
        output = await tool.run(input, invocation)
    except asyncio.CancelledError:
        is_cut = True
        raise
    finally:
        await invocation.settle_inside(cancel=is_cut)
        invocation.end()
        if invocation.signal is not None:
            raise invocation.signal
    return output


def invalid(tool_id: str, problems: list[Problem]) -> InvalidInput:
    """Return the error that names every problem of an input."""
    said = "; ".join(str(problem) for problem in problems)
    return InvalidInput(f'input of "{tool_id}" is not valid: {said}', details=_found(problems))


def _found(problems: list[Problem]) -> dict[str, Any]:
    found = [{"path": problem.path, "message": problem.message} for problem in problems]
    return {"problems": found}


def _error_of(envelope: Envelope) -> ErrorDetail:
    return cast("ErrorDetail", envelope.error)


def _out_of_time(tool: Tool, seconds: float, left: float) -> CallError:
    if left < seconds:
        text = "the seconds of this task's budget were used up during the call"
        if tool.spec.effect is Effect.WRITE and not tool.spec.is_frame:
            return Interrupted(f"{text}: it may or may not have happened")
        return BudgetExceeded(text)
    return ToolTimeout(f'"{tool.spec.tool_id}" gave no answer in {seconds:g} s')


def _foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what counts of errors that came together: a Signal, a CallError, or the first."""
    leaves = list(_leaves(group))
    kinds = (LeaseLost, Signal, CallError, BaseException)
    return next(each for kind in kinds for each in leaves if isinstance(each, kind))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
