"""Answers models and calls in a replay: by the recorded replies and outcomes, or a difference.

Without `live` the replay ends at the first difference. With it, real models and tools that only
read go on from there, and a call that writes ends it. Shown by tests/app/trial/test_replay.py.
"""

from typing import Any

from msgspec.structs import replace

from penstock.app.trial.definitions import system_then
from penstock.app.trial.mocks import error_of
from penstock.app.trial.recorded_events import RecordedEvents
from penstock.app.trial.replay_log import ReplayLog
from penstock.chat.recorded.replay_report import DifferenceKind, ReplayOptions, hash_of, short
from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotFound
from penstock.core.envelope import Json
from penstock.core.errors import Cancel
from penstock.core.events.events import CallSettled, Record, ReplyReceived, TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.engine.bus import LiveReply
from penstock.models.model import ModelRequest
from penstock.tools.invocation import Invocation
from penstock.tools.policy import SCRIPT
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

_NO_TEXT = (
    "the log has no text of system prompts, and the definition of the agent at that time was not "
    "noted; only a digest says that it changed"
)
_REFUSALS: dict[str, DifferenceKind] = {
    ToolNotFound.code: "tool_missing",
    "BUDGET_EXCEEDED": "limit",
    "LOOP_DETECTED": "limit",
    "NOT_PERMITTED": "permission",
    "REJECTED": "permission",
    "INVALID_INPUT": "tool_input",
}
"""The kinds of differences of calls that were refused and would run now."""


class Answers:
    """Answers the models and the calls of one replay."""

    def __init__(
        self, record: RecordedEvents, log: ReplayLog, options: ReplayOptions, *, is_foreign: bool
    ) -> None:
        self.options = options
        self.record = record
        self.log = log
        self.usage = NOTHING_SPENT
        """The price of real replies."""
        self.warnings: list[str] = []
        self.old_prompt: tuple[str, str] | None = None
        """The instructions that the replay changes, and what they are instead."""
        self.is_foreign = is_foreign
        """Whether another installation recorded the task: what happened in scripts is not found."""

    def reply_to(self, live: LiveReply | None, request: ModelRequest) -> ReplyReceived | None:
        """Return the recorded reply to a request; None if a real model must answer.

        Raises Cancel.
        """
        log, record = self.log, self.record
        if log.is_live:
            return None
        path = None if live is None else live.path
        iteration, closing = (1, False) if live is None else (live.iteration, live.closing)
        where = str(path or record.task_id) + f"/{iteration}"
        found = record.reply(path, iteration, closing=closing)
        if path is None:
            self._compare_request(request, where, found)
        if self.options.changes.model is not None:
            self.log.go_live()
        if log.is_live:
            return None
        if found is None:
            other = record.other_reply(path)
            if other is None and record.was_cut:
                raise log.stop("end")
            what = "with tools" if not closing else "for a closing answer"
            was = "another request" if other is not None else "no further request"
            signal = log.differ(
                "limit",
                f"the model is asked once more {what}; the record has {was}",
                other,
                path=where,
                recorded=None if other is None else _request_of(other),
                now={"iteration": iteration, "closing": closing},
            )
            self._stop_or_live(signal)
            return None
        log.check_until(found)
        event = found.event
        assert isinstance(event, ReplyReceived)  # noqa: S101  the key of the queue
        return event

    def _compare_request(self, request: ModelRequest, where: str, found: Record | None) -> None:
        """Compare what the log tells of a request of the task's own agent."""
        changed, self.old_prompt = self.old_prompt, None
        start = self.log.start_of_now()
        system = {"system": request.system, "hash": hash_of(request.system)}
        if changed is not None:
            own, other = changed
            text = request.system.replace(other, own, 1) if other else request.system
            was = {"system": text, "hash": hash_of(text)}
            summary = "the system prompt is another one"
            at = found or self.log.started_then
            self._stop_or_live(
                self.log.differ("prompt", summary, at, path=where, recorded=was, now=system)
            )
        elif start is not None:
            now, then = start
            self._compare_starts(request, where, now, then if found is None else found)

    def _compare_starts(
        self, request: ModelRequest, where: str, now: TaskStarted | HandedOff, at: Record
    ) -> None:
        """Stop at the first request of an agent with other tools or another definition."""
        before = self.log.started_then.event if self.log.started_then else None
        assert isinstance(before, TaskStarted | HandedOff)  # noqa: S101  the log keeps these alone
        digests = before.agent_digest, now.agent_digest
        if before.offered != now.offered:
            gone = [each for each in before.offered if each not in now.offered]
            new = [each for each in now.offered if each not in before.offered]
            less, more = ", ".join(gone), ", ".join(new)
            parts = [f"without {less}"] * bool(gone) + [f"with {more}"] * bool(new)
            hashes = {each.name: hash_of(dict(each.parameters)) for each in request.tools}
            signal = self.log.differ(
                "tools",
                f"other tools are offered: {'; '.join(parts) or 'in another order'}",
                at,
                path=where,
                recorded={"ids": list(before.offered)},
                now={"ids": list(now.offered), "hashes": hashes},
            )
        elif digests[0] != digests[1] and all(digests):
            signal = self._other_definition(request, where, (before, now), at)
        elif changed := self.record.noted.changed_tools(before, self.log.agent_of(before)):
            signal = self.log.differ(
                "tools",
                f"the tools {', '.join(changed)} are offered with another schema or text",
                at,
                path=where,
                recorded={"tools": {name: was for name, (was, _) in changed.items()}},
                now={"tools": {name: is_ for name, (_, is_) in changed.items()}},
            )
        else:
            return
        self._stop_or_live(signal)

    def _other_definition(
        self,
        request: ModelRequest,
        where: str,
        starts: tuple[TaskStarted | HandedOff, TaskStarted | HandedOff],
        at: Record,
    ) -> Cancel:
        """Return the signal for an agent that was changed, with both texts if they are known."""
        before, after = starts
        name, noted = self.log.agent_of(before), self.record.noted
        recorded: dict[str, Any] = {"agentDigest": before.agent_digest}
        now: dict[str, Any] = {"agentDigest": after.agent_digest, "system": request.system}
        then, today = noted.then(before), noted.now(name)
        if then is None or today is None:
            self.warnings.append(_NO_TEXT)
            what = f"{before.agent_digest} is now {after.agent_digest}"
        else:
            changed = [each for each in today if today[each] != then.get(each)]
            what = ", ".join(changed)
            recorded |= {each: then.get(each) for each in changed}
            now |= {each: today[each] for each in changed}
            if (text := system_then(request.system, then, today)) is not None:
                recorded["system"] = text
        summary = f"the definition of the agent {name!r} changed: {what}"
        return self.log.differ("prompt", summary, at, path=where, recorded=recorded, now=now)

    def _stop_or_live(self, signal: Cancel) -> None:
        if not self.options.live:
            raise signal
        self.log.go_live()

    async def answer(self, tool: Tool, input: Json, invocation: Invocation) -> Any:
        """Return what a call got, or run it if that is safe. Raises Cancel and CallError."""
        call, log, spec = invocation.call, self.log, tool.spec
        found = self.record.settled(call.path)
        if found is None:
            return await self._unrecorded(tool, input, invocation)
        settled = found.event
        assert isinstance(settled, CallSettled)  # noqa: S101  RecordedEvents keeps these alone
        if not log.is_live:
            log.check_until(found)
            if not settled.ran:
                raise self._runs_now(spec, found, settled)
        if spec.is_frame and spec.kind != SCRIPT:
            return await tool.run(input, invocation)
        log.apply_inner(call.path, invocation.edition.knows)
        if spec.is_frame and not self.is_foreign:
            return await tool.run(input, invocation)
        if settled.envelope.error is not None:
            raise error_of(settled.envelope, settled.envelope.error)
        if settled.artifact_blob is None:
            return settled.envelope.output
        artifacts = invocation.edition.resources.artifacts
        return (await artifacts.whole(settled)).output

    async def _unrecorded(self, tool: Tool, input: Json, invocation: Invocation) -> Any:
        log, spec, path = self.log, tool.spec, invocation.call.path
        if log.is_live:
            if spec.effect is Effect.WRITE and not spec.is_frame:
                summary = f"{spec.tool_id} would run with {short(input)}, and it writes"
                log.differ("tool_input", summary, None, path=path, now=dict(input))
                raise log.stop("write")
            return await tool.run(input, invocation)
        if self.record.was_cut:
            raise log.stop("end")
        summary = f"{spec.tool_id} got {short(input)}, which was not recorded"
        raise log.differ("tool_input", summary, None, path=path, now=dict(input))

    def _runs_now(self, spec: ToolSpec, found: Record, settled: CallSettled) -> Cancel:
        """Return the signal for a call that was refused and would run now."""
        error = settled.envelope.error
        code = "" if error is None else error.code
        return self.log.differ(
            _REFUSALS.get(code, "code"),
            f"{spec.tool_id} runs now; it was refused: {code}",
            found,
            path=str(found.path),
            recorded={"verdict": "refused", "error": None if error is None else error.to_wire()},
            now={"verdict": "allow"},
        )

    def change_prompt(self, own: str, other: str) -> None:
        """Note that the agent has other instructions than its own."""
        self.old_prompt = None if own == other else (own, other)

    def spend(self, usage: Usage) -> None:
        """Count a real reply."""
        mine = self.usage
        self.usage = replace(
            mine,
            model_calls=mine.model_calls + 1,
            input_tokens=mine.input_tokens + usage.input_tokens,
            output_tokens=mine.output_tokens + usage.output_tokens,
            cost_usd=(mine.cost_usd or 0) + (usage.cost_usd or 0),
        )


def _request_of(record: Record) -> dict[str, Any]:
    event: Any = record.event
    return {"iteration": event.iteration, "closing": event.closing}
