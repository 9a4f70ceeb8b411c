"""`task.step`: work that runs once per task, even if several scripts request it.

A step is identified by its key and version; the task's values (partition `task.step`) hold its
arguments, its failures and its output. Guarantees: a settled step returns its output without
running again; a failed attempt is retried as its `retry` says, and reuses the successful writes of
earlier attempts; a step that used up its attempts throws an equal error in each entry, because all
entries make it from the stored one; a step with the same name and other arguments is refused.

One step is open at a time in the whole task (`Ledger.open_step`), because host calls inside it get
their paths from the open attempt. Before a retry the count of equal calls is reset to the start of
the step, so that the retry requests the same paths. Paths inside a settled step are stored with it,
so that a later entry, which skips the callback, is not reported as diverged.

Proof: `tests/tools/scripts/test_host_steps.py`.
"""

import json
from typing import Any

from msgspec.structs import replace

from penstock.core.call import ONCE, CallPath, Effect, RetryPolicy
from penstock.core.events.events import StateWritten
from penstock.core.json_values.json_text import canonical, is_larger
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.failures import DETAILS_BYTES
from penstock.tools.invocation import Invocation
from penstock.tools.redaction import check_key
from penstock.tools.scripts.arguments import ScriptSchema, mapping, number, text
from penstock.tools.scripts.recording import Recording, StepAttempt
from penstock.tools.tasks.task_values import ALWAYS, TaskValues

PARTITION = "task.step"
SETTLE = "task.step.settle"
ARGUMENTS = ("input", "input_schema", "output_schema", "retry")
MAX_WAIT_MS = 600_000
MAX_NAME_CHARACTERS = 200
MAX_ERROR_CHARACTERS = 2000
MAX_INSIDE = 1000
"""Most paths of host calls that are stored with a step."""
RETRY = {
    "max_attempts": (1, 10),
    "initial_backoff_ms": (0, MAX_WAIT_MS),
    "multiplier": (1, 10),
    "max_backoff_ms": (0, MAX_WAIT_MS),
}


class StepCalls:
    """Starts and settles the steps of a task."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._values = TaskValues(invocation.ledger, invocation.edition.world.clock)
        self._open: str | None = None
        self._counted: dict[str, int] = {}
        """How often each call was counted when the step was opened."""

    def start(self, arguments: Any) -> HostCallResult:
        """Return the stored output, or the number of the attempt for which to run the callback."""
        name = _name(arguments)
        check_key(self._invocation.caller.secrets, arguments["key"], str(arguments["version"]))
        if self._invocation.ledger.open_step:
            raise TypeError(
                f"{_label(arguments)}: another step is open; a task runs one step at a time, "
                "and none inside another"
            )
        # Redacted, because they are stored: equal arguments stay equal, secrets included.
        passed = {name: arguments[name] for name in ARGUMENTS if name in arguments}
        identity = self._invocation.caller.secrets.json(passed)
        written = self._values.find(PARTITION, name)
        step = _new(identity) if written is None else written.value
        if canonical(step["arguments"]) != canonical(identity):
            raise TypeError(f"{_label(arguments)} was used with other arguments")
        # The callback of a settled step does not run, so its host calls are not requested again.
        self._recording.mark_repeated(*map(CallPath, step.get("inside", ())))
        if self._failed_here(step):
            self._recording.mark_repeated(path := CallPath(step["failed"]["path"]))
            return self._recording.recorded(path, given_up(step))
        if "output" in step:
            path = CallPath(step["path"])
            self._recording.mark_repeated(path)
            self._recording.count(step["output"])
            return self._recording.recorded(path, _settled(step))
        if problem := _problem(arguments.get("input_schema"), arguments.get("input")):
            raise TypeError(f"input of {_label(arguments)} is not valid: {problem}")
        _policy(arguments.get("retry"))
        if written is None:
            self._write(name, step)
        self._counted = self._invocation.occurrences.counted()
        self._begin(name, attempt := step["failures"] + 1)
        # The callback runs now, so console lines inside it are new, too.
        self._recording.is_live = True
        key = self._key(name)
        return self._recording.fresh({"status": "run", "attempt": attempt, "idempotency_key": key})

    def settle(self, arguments: Any) -> HostCallResult:
        """Store what the callback returned. After a failure, return whether to retry."""
        name = _name(arguments)
        written = self._values.find(PARTITION, name)
        if written is None or self._open != name:
            raise TypeError(f"{_label(arguments)} is not open")
        step = dict(written.value)
        if "error" not in arguments:
            output = self._invocation.caller.secrets.json(arguments.get("output"))
            wrong = _problem(step["arguments"].get("output_schema"), output)
            if wrong is None:
                return self._finish(name, step, output)
            message = f"output of {_label(arguments)} is not valid: {wrong}"
            error = {"name": "TypeError", "message": message}
        else:
            error = _error(self._invocation.caller.secrets.json(arguments["error"]))
        self._end(step)
        return self._failed(name, step, error)

    def close(self) -> None:
        """Close the open step at the end of the entry."""
        if self._open is not None:
            self._end({})

    def _begin(self, name: str, attempt: int) -> None:
        self._open, self._recording.step = name, StepAttempt(attempt)
        self._invocation.ledger.open_step.append(self._invocation.call.path)

    def _end(self, step: dict[str, Any]) -> None:
        """Store the paths inside the step, which no later entry requests again."""
        attempt = self._recording.step
        if attempt is not None:
            inside = [*step.get("inside", ()), *attempt.inside]
            step["inside"] = list(dict.fromkeys(inside))[:MAX_INSIDE]
        self._open = self._recording.step = None
        self._invocation.ledger.open_step.clear()

    def _finish(self, name: str, step: dict[str, Any], output: Any) -> HostCallResult:
        self._end(step)
        self._recording.count(output)
        path = self._recording.place(SETTLE, [name, "output"], Effect.WRITE)
        step |= {"output": output, "path": path}
        self._write(name, step)
        done = self._recording.settle(path, SETTLE, None)
        return HostCallResult(value=_settled(step), at_ms=done.at_ms)

    def _failed_here(self, step: dict[str, Any]) -> bool:
        """Whether the step used up its attempts in this attempt of the call."""
        failed = step.get("failed", {})
        return bool(failed.get("by") == [self._invocation.call.path, self._invocation.attempt])

    def _failed(self, name: str, step: dict[str, Any], error: dict[str, Any]) -> HostCallResult:
        # Stored before the retry: a crash between two attempts must not reset the count.
        step["failures"] += 1
        policy = _policy(step["arguments"].get("retry"))
        if step["failures"] >= policy.max_attempts:
            path = self._recording.place(SETTLE, [name, "failed"], Effect.WRITE)
            by = [self._invocation.call.path, self._invocation.attempt]
            step |= {"failures": 0, "failed": {"path": path, "error": error, "by": by}}
            self._write(name, step)
            done = self._recording.settle(path, SETTLE, None)
            return HostCallResult(value=given_up(step), at_ms=done.at_ms)
        self._write(name, step)
        # Its pause may be shorter than the 2 ms in which other events of scripts are collected.
        self._invocation.ledger.held.submit()
        # The retry requests the same paths as the attempt before: only then are writes reused.
        self._invocation.occurrences.go_back(self._counted)
        self._begin(name, attempt := step["failures"] + 1)
        wait = policy.backoff_ms(step["failures"])
        return self._recording.fresh({"status": "retry", "attempt": attempt, "wait_ms": wait})

    def _write(self, name: str, step: dict[str, Any]) -> None:
        path = self._invocation.call.path
        written = self._values.write(PARTITION, name, step, ttl=None, if_revision=ALWAYS)
        if isinstance(written, StateWritten):
            self._invocation.ledger.put(path, written)

    def _key(self, name: str) -> str:
        task_id = self._invocation.ledger.task.task_id
        return self._invocation.ledger.idempotency_key(CallPath(f"{task_id}/{PARTITION}/{name}"))


def _name(arguments: Any) -> str:
    key, version = text(arguments, "key", most=128), arguments.get("version")
    is_number = isinstance(version, int) and not isinstance(version, bool) and version > 0
    if not is_number and not (isinstance(version, str) and version):
        raise TypeError(f'step "{key}": version must be a text or a positive integer')
    return canonical([key, version])


def _label(arguments: Any) -> str:
    """Return the step's name for messages."""
    key, version = arguments["key"], arguments["version"]
    return f"step {json.dumps(key, ensure_ascii=False)} version {version}"


def _new(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"arguments": arguments, "failures": 0}


def _settled(step: dict[str, Any]) -> dict[str, Any]:
    return {"status": "settled", "output": step["output"]}


def given_up(step: dict[str, Any]) -> dict[str, Any]:
    """Return what the script gets for a step that used up its attempts."""
    failed = step["failed"]
    # Steps that an older version stored have only a message.
    error = failed.get("error") or {"name": "TypeError", "message": failed["problem"]}
    return {"status": "failed", "error": error}


def _error(thrown: Any) -> dict[str, Any]:
    """Return the parts of a thrown error that a later entry needs to throw it again."""
    given = thrown if isinstance(thrown, dict) else {}
    name, message, code = (given.get(part) for part in ("name", "message", "code"))
    name = name if isinstance(name, str) else "Error"
    message = message if isinstance(message, str) else "the step failed"
    error: dict[str, Any] = {
        "name": name[:MAX_NAME_CHARACTERS],
        "message": message[:MAX_ERROR_CHARACTERS],
    }
    if given.get("kind") not in {"flo", "tool"} or not isinstance(code, str):
        return error
    error |= {"kind": given["kind"], "code": code}
    error |= {flag: given.get(flag) is True for flag in ("retryable", "continuable")}
    if "details" in given and not is_larger(given["details"], DETAILS_BYTES):
        error["details"] = given["details"]
    return error


def _policy(retry: Any) -> RetryPolicy:
    options = mapping({"retry": {} if retry is None else retry}, "retry")
    chosen: dict[str, Any] = {
        name: number(options, name, *bounds) for name, bounds in RETRY.items() if name in options
    }
    return replace(ONCE, **chosen)


def _problem(schema: Any, value: Any) -> str | None:
    if schema is None:
        return None
    problems = ScriptSchema(schema).problems(value)
    return str(problems[0]) if problems else None
