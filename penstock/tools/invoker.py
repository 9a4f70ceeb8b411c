"""The invoker: the only code path by which a tool call runs.

It guarantees that every caller gets exactly one Envelope per call, and that a call is settled in
the log once. Only Signals and cancellation pass through as exceptions. `Edition.call` names the
nine steps. A call that is settled in the task's Ledger is replayed and never runs again.

It relies on the call's path as its identity (decision 001), and on `Ledger.start`, which commits a
`write` before the tool runs: otherwise the next process would run the write again after a crash.
Proof: `tests/tools/test_invoker.py::test_a_crash_repeats_a_call_unless_it_writes`; `tests/chaos`
kills the process after each commit.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Any, cast

from penstock.core.call import Call, Effect
from penstock.core.call_errors import CallError, Interrupted
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.errors import Cancel, HookFailed, Signal, Suspend
from penstock.core.events.events import CallSettled
from penstock.core.exhaustion import WAIT_SECONDS
from penstock.core.limits import World
from penstock.core.text import ERROR_CHARS
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import withdraw
from penstock.resources.redact import Redactor
from penstock.resources.threads import Threads
from penstock.tools.admission import ActiveCall, Admission
from penstock.tools.cancellable import CancellableWork, Deadline, run_to_end
from penstock.tools.failures import (
    explain_interrupted,
    failure,
    foremost,
    invalid_output,
    may_wait,
    out_of_time,
    retried,
)
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import HookRegistry
from penstock.tools.invocation import Attempt, Invocation, NestedCalls
from penstock.tools.policy import Caller, RuleSet
from penstock.tools.redaction import check_change, redacted
from penstock.tools.resources import Resources
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry, Tool


class Invoker:
    """Calls tools for a model, a script, a slash command, an HTTP client or a flow.

    Every caller gets an Envelope. Only Signals and cancellation pass through.
    """

    def __init__(
        self,
        registry: Registry,
        rules: RuleSet,
        resources: Resources,
        *,
        world: World,
        threads: Threads | None = None,
        hooks: HookRegistry | None = None,
    ) -> None:
        self.hooks = hooks or HookRegistry()
        """The hooks of the project, which agents add theirs to."""
        self.rules = rules
        self.threads = threads or Threads(world.limits.tool_threads)
        """Threads for synchronous tools. The runtime closes them."""
        self._resources = resources
        self._world = world
        self.renew(registry)

    def renew(self, registry: Registry) -> None:
        """Use the tools of another registry from the next call on.

        A running call and its nested calls keep the edition they started with.
        """
        self.registry = registry
        self.edition = Edition(
            registry=registry,
            admission=Admission(registry, self.rules, self._world, self._resources.project),
            resources=self._resources,
            threads=self.threads,
            world=self._world,
        )

    def over(self, registry: Registry) -> "Invoker":
        """Return an invoker for other tools with the same rules, resources and threads."""
        return Invoker(
            registry,
            self.rules,
            self._resources,
            world=self._world,
            threads=self.threads,
            hooks=self.hooks,
        )

    async def call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: NestedCalls | None = None
    ) -> Envelope:
        """Make a call with the current tools, and return its outcome."""
        edition = self.edition
        known = await self._resources.secrets.load(ledger, self._resources.vault)
        return await edition.call(call, known.add_to(caller), ledger, nest)

    def refuse(self, call: Call, ledger: Ledger, error: CallError, detector: str) -> CallSettled:
        """Settle a call as failed without running it."""
        envelope = error.envelope()
        settled = CallSettled(
            tool_id=call.tool_id,
            envelope=envelope,
            call_id=call.call_id,
            context=self._resources.artifacts.error_text(_error_of(envelope)),
            ran=False,
            detector=detector or None,
        )
        ledger.settle(call.path, settled)
        return settled

    def key_of(self, call: Call) -> str | None:
        """Return the key of calls that must not run at the same time. Raises CallError."""
        tool = self.registry.by_id.get(call.tool_id)
        if tool is None or isinstance((spec := tool.spec).exclusive, bool):
            return None
        try:
            return spec.exclusive_key(call.input)
        except Exception as error:
            raise failure(spec, error, Redactor(), most=ERROR_CHARS) from error


@dataclass(frozen=True, kw_only=True)
class Edition:
    """One edition of a project's tools, and the path of a call through it.

    It never changes: a call must not see one edition of a tool when it starts and another when it
    is settled. Each Invocation holds the edition of its call, and makes nested calls with it.
    """

    registry: Registry
    admission: Admission
    resources: Resources
    threads: Threads
    world: World

    @property
    def permissions(self) -> frozenset[str]:
        """All permissions that the project's tools name."""
        return self.registry.permissions

    def knows(self, tool_id: str) -> bool:
        """Whether a tool with this id exists."""
        return tool_id in self.registry

    def effect_of(self, tool_id: str) -> Effect:
        """Return the effect of a tool; `none` if it does not exist."""
        return self.registry.effect_of(tool_id)

    async def call(
        self, call: Call, caller: Caller, ledger: Ledger, nest: NestedCalls | None
    ) -> Envelope:
        """Replay, resolve, permit, validate, ask, reserve, run and check, settle."""
        if settled := ledger.find(call.path):
            return await self._replay(settled, caller)
        if nest is not None:
            nest.calls += 1
        active_call = ActiveCall(call, caller, ledger)
        chosen, deps = caller.hooks, self.resources.dependencies
        hooks = None if chosen is None else TaskHooks(chosen, ledger, caller.profile, deps)
        try:
            try:
                tool = self.admission.resolve(active_call)
                self.admission.permit(active_call)
                self.admission.check_input(active_call.spec, call.input)
                if hooks is not None:
                    await self.admission.ask_hooks(active_call, hooks, call.input)
                agreed = await self.admission.agreed(active_call, nest)
                if agreed is not active_call.call.input:  # a person edited it: check it, too
                    self.admission.check_edited(active_call, agreed)
                    if hooks is not None:
                        agreed = await self.admission.ask_hooks(active_call, hooks, agreed, turn=1)
                self.admission.reserve(active_call, nest)
                output = await self._run(tool, agreed, active_call)
                self._check(active_call, output)
                envelope = Envelope(Status.SUCCESS, output)
            except CallError as error:
                envelope = active_call.failed(error)
            if hooks is not None and active_call.nest is not None:
                envelope = await self._show_hooks(active_call, hooks, envelope)
            envelope = await self._settle(active_call, envelope)
            if active_call.is_cut:
                raise asyncio.CancelledError  # the tool swallowed it, but its caller must still end
            return envelope
        finally:
            if active_call.nest is not None:  # the log counts the call now, or it waits
                ledger.budget.settle_call()

    async def _replay(self, settled: CallSettled, caller: Caller) -> Envelope:
        """Return the recorded outcome: the whole output for code, the clipped one for a model."""
        if settled.artifact_blob is None or caller.clip_at is not None:
            return settled.envelope
        return await self.resources.artifacts.whole(settled)

    async def _run(self, tool: Tool, input: dict[str, Any], active_call: ActiveCall) -> Any:
        """Run the tool until it ends, its retries are used up, or its time is up."""
        spec, ledger, call = active_call.spec, active_call.ledger, active_call.call
        attempt, active_call.worked_ms = ledger.attempt(call.path)
        if spec.effect is Effect.WRITE and not spec.is_transactional:
            try:
                await ledger.start(call, again=spec.idempotent or spec.is_frame)
            except Interrupted as error:
                explain_interrupted(spec, error)
                raise
            if ledger.task.cancel_requested:  # arrived during the commit: do not run the tool
                raise Cancel
        active_call.began = self.world.clock.monotonic()
        wait_until = active_call.began + spec.timeout_ms / 1000
        while True:
            try:
                return await self._attempt(tool, input, active_call, attempt)
            except CallError as error:
                # No file descriptor or thread was left: the tool has not run, so no attempt counts.
                if may_wait(spec, error) and self.world.clock.monotonic() < wait_until:
                    await self._back_off(spec, WAIT_SECONDS, ledger)
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
                await self._back_off(spec, spec.retry.backoff_ms(attempt) / 1000, ledger)
                attempt, active_call.worked_ms = attempt + 1, 0

    async def _back_off(self, spec: ToolSpec, seconds: float, ledger: Ledger) -> None:
        """Wait before the next attempt, at most for the rest of the task's time."""
        left = ledger.budget.seconds_left()
        await self.world.clock.sleep(max(min(seconds, left), 0))
        if left <= seconds:
            raise out_of_time(spec, math.inf, left)

    async def _attempt(
        self, tool: Tool, input: dict[str, Any], active_call: ActiveCall, attempt: int
    ) -> Any:
        spec, ledger, path = active_call.spec, active_call.ledger, active_call.call.path
        secrets = active_call.caller.secrets
        began = self.world.clock.monotonic()
        seconds = (spec.timeout_ms - active_call.worked_ms) / 1000
        left = ledger.budget.ends_at - began
        if seconds <= 0:
            raise out_of_time(spec, seconds, left)
        allowed = max(min(seconds, left), 0)
        nest = active_call.nest or NestedCalls(None)
        invocation = active_call.invocation = Invocation(
            active_call.call,
            spec,
            active_call.caller,
            ledger=ledger,
            edition=self,
            attempt=Attempt(nest, attempt, began + allowed),
        )
        limit = Deadline(invocation.runner.task, allowed, depth=active_call.call.depth)
        work = CancellableWork(tool.run(input, invocation), invocation, limit)
        try:
            output = await run_to_end(work, invocation)
        except Suspend:
            # The next entry gets the rest of the timeout: waiting for a person costs nothing.
            took = self.world.clock.monotonic() - began
            ledger.park(path, attempt=attempt, seconds=took, computed_ms=invocation.computed_ms)
            raise
        except (CallError, Signal):
            raise
        except BaseExceptionGroup as group:
            raise failure(spec, foremost(group), secrets, most=ERROR_CHARS) from group
        except BaseException as error:
            if work.is_cut_by(error):
                active_call.settle_cut()
                raise
            if limit.is_over:
                raise out_of_time(spec, seconds, left) from None
            raise failure(spec, error, secrets, most=ERROR_CHARS) from error
        finally:
            runner = invocation.runner
            active_call.is_cut = runner.is_unwanted and runner.is_cut
        if limit.is_over:
            raise out_of_time(spec, seconds, left)
        return output

    async def _show_hooks(
        self, active_call: ActiveCall, hooks: TaskHooks, envelope: Envelope
    ) -> Envelope:
        """Return the outcome as the hooks of the agent leave it; theirs if one of them fails."""
        shown = redacted(envelope, active_call.caller.secrets)
        try:
            left = await hooks.after_call(active_call.call, shown)
            if left is shown:
                return envelope
            if left.ok:
                self._check(active_call, left.output)
        except CallError as error:
            return active_call.failed(error)
        except HookFailed as failed:
            if failed.ends_task:
                raise
            withheld = f"{failed}. The call was made; its outcome is withheld."
            detail = ErrorDetail(code=failed.code, message=withheld, details=failed.details)
            return Envelope(Status.FAILED, error=detail)
        return left

    def _check(self, active_call: ActiveCall, output: Any) -> None:
        schema = active_call.spec.compiled_output
        if schema is not None and (problems := schema.problems(output)):
            raise invalid_output(active_call.spec.tool_id, problems)
        invocation = active_call.invocation
        if invocation is not None and invocation.change is not None:
            # Checked after the run: the tool may have received a secret while it ran.
            check_change(invocation.change, active_call.caller.secrets)

    async def _settle(self, active_call: ActiveCall, envelope: Envelope) -> Envelope:
        call, caller, ledger = active_call.call, active_call.caller, active_call.ledger
        if ledger.task.waits.waiting:
            withdraw(ledger.held, ledger.task, below=call.path)
        clip_at, secrets = caller.clip_at, caller.secrets
        if secrets.has_any:
            envelope = redacted(envelope, secrets)
        try:
            shown = await self.resources.artifacts.show(envelope, active_call.form, clip_at=clip_at)
        except CallError as error:
            envelope = active_call.failed(error)
            shown = await self.resources.artifacts.show(envelope, clip_at=clip_at)
        settled = active_call.settled(shown, self.world.clock)
        invocation = active_call.invocation
        # A nested write is on disk before the calling code continues: if that crashed first, the
        # log would show a crash inside the write, and decision 003 would run the code again.
        is_committed = call.depth > 0 and self.registry.effect_of(call.tool_id) is Effect.WRITE
        if invocation is not None and invocation.change is not None:
            # One transaction makes the change and records the outcome (decision 008).
            recorded = await ledger.change(call.path, settled, invocation.change)
            if not recorded.envelope.ok:
                return recorded.envelope
        else:
            ledger.settle(call.path, settled, is_awaited=is_committed)
        if is_committed:
            await ledger.held.commit()
        await ledger.held.make_sure()
        return envelope if clip_at is None and envelope.error is None else shown.envelope


def _error_of(envelope: Envelope) -> ErrorDetail:
    return cast("ErrorDetail", envelope.error)
