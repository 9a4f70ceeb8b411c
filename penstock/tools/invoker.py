"""The invoker: the only code path by which a tool call runs.

It guarantees that every caller gets exactly one Envelope per call, and that a call is settled in
the log once. Only Signals and cancellation pass through as exceptions. `_call` names the nine
steps. A call that is settled in the task's Ledger is replayed and never runs again.

It relies on the call's path as its identity (decision 001), and on `Ledger.start`, which commits a
`write` before the tool runs: otherwise the next process would run the write again after a crash.
Proof: `tests/tools/test_invoker.py::test_what_a_crash_in_the_middle_means`; `tests/chaos` kills the
process after each commit.
"""

import asyncio
import math
from collections.abc import Sequence
from copy import copy
from typing import Any, cast

from msgspec.structs import replace

from penstock.core.call import Call, Effect, Origin
from penstock.core.call_errors import (
    BudgetExceeded,
    CallError,
    Interrupted,
    NotPermitted,
    ToolNotFound,
)
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import Cancel, Signal, Suspend
from penstock.core.events.events import CallSettled
from penstock.core.exhaustion import WAIT_SECONDS
from penstock.core.json_values.json_text import JSON_DEPTH, is_larger
from penstock.core.json_values.schema import Problem, json_problems
from penstock.core.limits import World
from penstock.core.text import ERROR_CHARS, size_text
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import withdraw
from penstock.resources.redact import Redactor
from penstock.tools.active_call import ActiveCall, Approvals
from penstock.tools.cancellable import CancellableWork, run_to_end
from penstock.tools.deadline import Deadline
from penstock.tools.faults import (
    failure,
    foremost,
    invalid,
    invalid_output,
    may_wait,
    out_of_time,
    retried,
)
from penstock.tools.invocation import Invocation, InvokerContext, NestedCalls
from penstock.tools.policy import SCRIPT, Caller, Rules, refused
from penstock.tools.redaction import check_change, redacted, redacted_files
from penstock.tools.resources import Resources
from penstock.tools.threads import Threads
from penstock.tools.tool import Registry, Tool


class Invoker:
    """Calls tools for a model, a script, a slash command, an HTTP client or a flow.

    Every caller gets an Envelope. Only Signals and cancellation pass through.
    """

    def __init__(
        self,
        registry: Registry,
        rules: Rules,
        resources: Resources,
        *,
        world: World,
        threads: Threads | None = None,
    ) -> None:
        self.rules = rules
        self.threads = threads or Threads(world.limits.tool_threads)
        """Threads for synchronous tools. The runtime closes them."""
        self._artifacts = resources.artifacts
        self._clock = world.clock
        self._limits = world.limits
        self._approvals = Approvals(rules, world, resources.project)
        self._resources = resources
        self._world = world
        self.renew(registry)

    def renew(self, registry: Registry) -> None:
        """Use the tools of another registry from the next call on.

        A running call and its nested calls keep the registry they started with.
        """
        # The context holds a copy of this invoker: `self.registry` changes while calls run, and a
        # call must not see one edition of a tool when it starts and another when it is settled.
        self.registry = registry
        self._inside = InvokerContext(
            call_tool=lambda *arguments: Invoker._call(edition, *arguments),
            effect_of=registry.effect_of,
            knows=registry.__contains__,
            permissions=registry.permissions,
            resources=self._resources,
            threads=self.threads,
            world=self._world,
        )
        edition = copy(self)

    def over(self, registry: Registry) -> "Invoker":
        """Return an invoker for other tools with the same rules, resources and threads."""
        return Invoker(
            registry, self.rules, self._resources, world=self._world, threads=self.threads
        )

    async def call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: NestedCalls | None = None
    ) -> Envelope:
        """Make a call with the current tools, and return its outcome."""
        known = await self._resources.secrets.of(ledger, self._resources.vault)
        return await self._inside.call_tool(call, known.add_to(caller), ledger, nest)

    async def _call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: NestedCalls | None
    ) -> Envelope:
        """Replay, resolve, permit, validate, ask, reserve, run and check, settle."""
        if settled := ledger.find(call.path):
            return await self._replay(settled, caller)
        if nest is not None:
            nest.calls += 1
        active_call = ActiveCall(call, caller, ledger)
        try:
            try:
                tool = self._resolve(active_call)
                self._permit(active_call)
                self.check_input(tool, call.input)
                self._ask_plugins(tool, active_call, call.input)
                agreed = await self._approvals.agreed(tool, active_call, nest)
                if agreed is not call.input:  # a person edited it: nothing has checked it yet
                    self.check_input(tool, agreed)
                    self._ask_plugins(tool, active_call, agreed)
                self._reserve(active_call, nest)
                output = await self._run(tool, agreed, active_call)
                self._check(tool, output)
                # Checked after the run: the tool may have received a secret while it ran.
                check_change(active_call.change, caller.secrets)
                envelope = Envelope(Status.SUCCESS, output)
            except CallError as error:
                envelope = active_call.failed(error)
            envelope = await self._settle(active_call, envelope)
            if active_call.is_cut:
                raise asyncio.CancelledError  # the tool swallowed it, but its caller must still end
            return envelope
        finally:
            active_call.release_budget()

    def check_input(
        self, tool: Tool, input: dict[str, Any], unread: Sequence[Problem] = ()
    ) -> None:
        """Raise InvalidInput with every problem unless the input matches the tool's schema.

        `unread` holds problems that the caller found while it parsed the input. No second problem
        is reported at the same path.
        """
        # Depth and size go first: the schema check recurses into the input.
        problems = list(json_problems(input, JSON_DEPTH))
        if not problems and is_larger(input, max_bytes := self._limits.input_bytes):
            problems = [Problem("", f"is over {size_text(max_bytes)}")]
        known_paths = {problem.path for problem in unread}
        if "" not in known_paths:
            problems = problems or self.registry.schema(tool).problems(input)
        if problems or unread:
            more = [problem for problem in problems if problem.path not in known_paths]
            raise invalid(tool.spec.tool_id, [*unread, *more])

    def refuse(self, call: Call, ledger: Ledger, error: CallError, detector: str) -> CallSettled:
        """Settle a call as failed without running it."""
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

    def key_of(self, call: Call) -> str | None:
        """Return the key of calls that must not run at the same time. Raises CallError."""
        tool = self.registry.find(call.tool_id)
        if tool is None or isinstance(exclusive := tool.spec.exclusive, bool):
            return None
        if isinstance(exclusive, str):
            return exclusive
        if self.registry.schema(tool).problems(call.input):
            return None
        try:
            return str(exclusive(call.input))
        except Exception as error:
            max_chars = ERROR_CHARS
            raise failure(tool.spec, error, Redactor(), most=max_chars) from error

    async def _replay(self, settled: CallSettled, caller: Caller) -> Envelope:
        """Return the recorded outcome: the whole output for code, the clipped one for a model."""
        if settled.artifact_blob is None or caller.clip_at is not None:
            return settled.envelope
        return await self._artifacts.whole(settled)

    def _resolve(self, active_call: ActiveCall) -> Tool:
        """Return the tool. Raises ToolNotFound if it does not exist or the caller cannot see it."""
        call, caller = active_call.call, active_call.caller
        tool = self.registry.find(call.tool_id)
        if tool is not None:
            active_call.refusal = refused(tool.spec, caller)
            active_call.is_hidden = self.rules.hides(tool.spec, caller)
            # A rule that hides a tool also takes it out of the offer, so the grant is missing too.
            # The model then reads which rule denies the call, not that the tool does not exist.
            was_offered = caller.origin is Origin.MODEL and active_call.is_hidden
            if was_offered or not isinstance(active_call.refusal, ToolNotFound):
                active_call.tool = tool
                return tool
        visible = {tool.spec.tool_id for tool in self.registry if self._sees(tool, caller)}
        if caller.session is not None and caller.origin is Origin.MODEL:
            visible = caller.session.nameable(visible)
        raise self.registry.missing(call.tool_id, visible)

    def _permit(self, active_call: ActiveCall) -> None:
        if active_call.is_hidden and active_call.tool is not None:
            raise NotPermitted(self.rules.denial(active_call.tool.spec, active_call.caller))
        if active_call.refusal is not None:
            raise active_call.refusal

    def _ask_plugins(self, tool: Tool, active_call: ActiveCall, input: dict[str, Any]) -> None:
        """Let plugin guards refuse a call of an agent session. They can only forbid, not allow."""
        call, caller, folder = active_call.call, active_call.caller, self._resources.project
        session = caller.session if caller.origin is Origin.MODEL else None
        if session is None or not session.guards:
            return
        if tool.spec.look is not None and folder is not None:
            tool.spec.look(input, folder.files(caller.access), folder.shell)
        if (error := session.plugin_refusal(replace(call, input=input))) is not None:
            raise error

    def _sees(self, tool: Tool, caller: Caller) -> bool:
        spec = tool.spec
        is_open = not spec.is_broken and refused(spec, caller) is None
        return is_open and not self.rules.hides(spec, caller)

    def _reserve(self, active_call: ActiveCall, nest: NestedCalls | None) -> None:
        if nest is None:
            nest = NestedCalls(active_call.root, active_call.call.call_id)
        elif nest.calls > self._limits.nested_calls and active_call.caller.inside_kind != SCRIPT:
            max_calls = self._limits.nested_calls
            raise BudgetExceeded(f"one call made more than {max_calls} nested calls")
        if active_call.ledger.outcome_chars > (max_chars := self._limits.outcome_chars):
            size = f"over {max_chars} characters (limits.outcome_chars)"
            raise BudgetExceeded(f"the outcomes of this task's calls have {size}")
        active_call.ledger.budget.reserve_call()
        active_call.nest = nest

    async def _run(self, tool: Tool, input: dict[str, Any], active_call: ActiveCall) -> Any:
        """Run the tool until it ends, its retries are used up, or its time is over."""
        spec, ledger, call = tool.spec, active_call.ledger, active_call.call
        if spec.effect is Effect.WRITE and not spec.stays_inside:
            await ledger.start(call, again=spec.idempotent or spec.is_frame)
            if ledger.task.cancel_requested:  # arrived during the commit: do not run the tool
                raise Cancel
        active_call.began = self._clock.monotonic()
        wait_until = active_call.began + spec.timeout_ms / 1000
        attempt = ledger.attempt(call.path)
        while True:
            try:
                return await self._attempt(tool, input, active_call, attempt)
            except CallError as error:
                # No file descriptor or thread was left: the tool has not run, so no attempt counts.
                if may_wait(spec, error) and self._clock.monotonic() < wait_until:
                    await self._back_off(tool, WAIT_SECONDS, ledger)
                    continue
                is_last = attempt >= spec.retry.max_attempts or active_call.is_cut
                if not error.retryable or is_last:
                    raise
                secrets = active_call.caller.secrets
                event = retried(spec, attempt, error, secrets=secrets)
                ledger.retry(call.path, event)
                # On disk before the next attempt: the paths of its nested calls contain its number,
                # so a process that takes over must continue with the same number.
                await ledger.held.commit()
                await self._back_off(tool, spec.retry.backoff_ms(attempt) / 1000, ledger)
                attempt += 1

    async def _back_off(self, tool: Tool, seconds: float, ledger: Ledger) -> None:
        """Wait before the next attempt, at most for the rest of the task's time."""
        left = ledger.budget.seconds_left()
        await self._clock.sleep(max(min(seconds, left), 0))
        if left <= seconds:
            raise out_of_time(tool.spec, math.inf, left)

    async def _attempt(
        self, tool: Tool, input: dict[str, Any], active_call: ActiveCall, attempt: int
    ) -> Any:
        spec, ledger, path = tool.spec, active_call.ledger, active_call.call.path
        secrets = active_call.caller.secrets
        before, left = ledger.active_ms(path, attempt), ledger.budget.seconds_left()
        seconds = (spec.timeout_ms - before) / 1000
        if seconds <= 0:
            raise out_of_time(spec, seconds, left)
        allowed, began = max(min(seconds, left), 0), self._clock.monotonic()
        invocation = active_call.invocation = Invocation(
            active_call.call, spec, active_call.caller, ledger=ledger, inside=self._inside
        )
        invocation.enter(active_call.nest or NestedCalls(None), attempt, began + allowed)
        limit = Deadline(invocation.owner, allowed, depth=active_call.call.depth)
        work = CancellableWork(tool.run(input, invocation), invocation, limit)
        try:
            with work:
                output = await run_to_end(work, invocation)
        except Suspend:
            # The next entry gets the rest of the timeout: waiting for a person costs nothing.
            took = self._clock.monotonic() - began
            ledger.park(path, attempt=attempt, seconds=took, computed_ms=invocation.computed_ms)
            raise
        except (CallError, Signal):
            raise
        except BaseExceptionGroup as group:
            raise failure(spec, foremost(group), secrets, most=ERROR_CHARS) from group
        except BaseException as error:
            if work.is_cut_by(error):
                self._cut(tool, active_call)
                raise
            if limit.is_over:
                raise out_of_time(spec, seconds, left) from None
            raise failure(spec, error, secrets, most=ERROR_CHARS) from error
        if limit.is_over:
            raise out_of_time(spec, seconds, left)
        return output

    def _cut(self, tool: Tool, active_call: ActiveCall) -> None:
        """Settle a nested write that its calling tool cancelled, so that it never runs again."""
        if tool.spec.is_cut_short and active_call.call.depth:
            tool_id = tool.spec.tool_id
            message = f'"{tool_id}" was cancelled while it ran: it may or may not have happened'
            settled = CallSettled(tool_id=tool_id, envelope=Interrupted(message).envelope())
            active_call.ledger.settle(active_call.call.path, settled)

    def _check(self, tool: Tool, output: Any) -> None:
        schema = self.registry.output_schema(tool)
        if schema is not None and (problems := schema.problems(output)):
            raise invalid_output(tool.spec.tool_id, problems)

    async def _settle(self, active_call: ActiveCall, envelope: Envelope) -> Envelope:
        call, caller, ledger = active_call.call, active_call.caller, active_call.ledger
        withdraw(ledger.held, ledger.task, below=call.path)
        clip_at = caller.clip_at
        envelope = redacted(envelope, caller.secrets)
        try:
            shown = await self._artifacts.show(envelope, active_call.form, clip_at=clip_at)
        except CallError as error:
            envelope = active_call.failed(error)
            shown = await self._artifacts.show(envelope, clip_at=clip_at)
        settled = CallSettled(
            tool_id=call.tool_id,
            envelope=shown.envelope,
            call_id=call.call_id,
            context=shown.context,
            is_text=shown.is_text,
            preview=shown.preview,
            ran=active_call.nest is not None,
            duration_ms=active_call.duration_ms(self._clock),
            artifact_id=shown.artifact_id,
            artifact_blob=shown.artifact_blob,
            total_characters=shown.total_characters,
            files=redacted_files((*active_call.files, *shown.files), caller.secrets),
            clock_ms=self._clock.now() if caller.inside_kind == SCRIPT else None,
            trace=active_call.trace,
        )
        held, is_committed = ledger.held, self._is_committed_first(call)
        if active_call.change is not None:
            # One transaction makes the change and records the outcome (decision 008).
            recorded = await ledger.change(call.path, settled, active_call.change)
            if not recorded.envelope.ok:
                return recorded.envelope
        else:
            ledger.settle(call.path, settled, is_awaited=is_committed)
        if is_committed:
            await held.commit()
        await held.make_sure()
        return envelope if clip_at is None and envelope.ok else shown.envelope

    def _is_committed_first(self, call: Call) -> bool:
        """Whether the outcome must be on disk before the calling code continues.

        True for a nested write. If the calling code continued first and then crashed, the log would
        show a crash inside the nested write, and decision 003 would run the calling code again.
        """
        return call.depth > 0 and self.registry.effect_of(call.tool_id) is Effect.WRITE


def _error_of(envelope: Envelope) -> ErrorDetail:
    return cast("ErrorDetail", envelope.error)
