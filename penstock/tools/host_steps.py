"""`task.step`: a piece of work that is done once in a task, whoever asks for it again."""

from dataclasses import replace
from typing import Any

from penstock.core.call import CallPath, Effect
from penstock.core.canonical import canonical
from penstock.core.events import StateWritten
from penstock.core.retry import ONCE, RetryPolicy
from penstock.sandbox.bridge import Settled
from penstock.tools.arguments import mapping, number, schema_of, text
from penstock.tools.invocation import Invocation
from penstock.tools.recording import Recording
from penstock.tools.state import ALWAYS, TaskValues

PARTITION = "task.step"
START, SETTLE = "task.step.start", "task.step.settle"
ARGUMENTS = ("input", "input_schema", "output_schema", "retry")
MOST_WAIT_MS = 600_000
RETRY = {
    "max_attempts": (1, 10),
    "initial_backoff_ms": (0, MOST_WAIT_MS),
    "multiplier": (1, 10),
    "max_backoff_ms": (0, MOST_WAIT_MS),
}
OTHER_ARGUMENTS = 'step "{key}" version {version} was used with other arguments'


class Steps:
    """The steps of a task, as its values keep them."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._values = TaskValues(invocation.ledger, invocation.inside.world.clock)
        self._open: str | None = None

    def start(self, arguments: Any) -> Settled:
        """Return the stored output, or that the callback is to be called, and as which attempt."""
        name = _name(arguments)
        if self._open is not None:
            raise TypeError(f"step {name}: a step is open already; one at a time, none inside")
        wanted = {each: arguments[each] for each in ARGUMENTS if each in arguments}
        written = self._values.find(PARTITION, name)
        step = _new(wanted) if written is None else written.value
        if canonical(step["arguments"]) != canonical(wanted):
            key, version = arguments["key"], arguments["version"]
            raise TypeError(OTHER_ARGUMENTS.format(key=key, version=version))
        if "output" in step:
            return self._recording.recorded(CallPath(step["path"]), _settled(step))
        if problem := _problem(arguments.get("input_schema"), arguments.get("input")):
            raise TypeError(f"input of step {name} is not valid: {problem}")
        _policy(arguments.get("retry"))
        if written is None:
            self._write(name, step)
        self._open = name
        self._recording.is_live = True
        attempt = step["failures"] + 1
        key = self._key(name)
        return self._recording.fresh({"status": "run", "attempt": attempt, "idempotency_key": key})

    def settle(self, arguments: Any) -> Settled:
        """Keep what the callback returned, or say what follows from its failure."""
        name = _name(arguments)
        written = self._values.find(PARTITION, name)
        if written is None or self._open != name:
            raise TypeError(f"step {name} is not open")
        step = dict(written.value)
        problem = None
        if "error" not in arguments:
            output = arguments.get("output")
            wrong = _problem(step["arguments"].get("output_schema"), output)
            if wrong is None:
                return self._finish(name, step, output)
            problem = f"output of step {name} is not valid: {wrong}"
        self._open = None
        return self._failed(name, step, problem)

    def _finish(self, name: str, step: dict[str, Any], output: Any) -> Settled:
        self._open = None
        path = self._recording.place(SETTLE, [name, "output"], Effect.WRITE)
        step |= {"output": output, "path": path}
        self._write(name, step)
        done = self._recording.settle(path, SETTLE, None)
        return Settled(value=_settled(step), at_ms=done.at_ms)

    def _failed(self, name: str, step: dict[str, Any], problem: str | None) -> Settled:
        step["failures"] += 1
        self._write(name, step)
        policy = _policy(step["arguments"].get("retry"))
        if step["failures"] >= policy.max_attempts:
            return self._recording.fresh({"status": "failed", "problem": problem})
        self._open = name
        wait = policy.backoff_ms(step["failures"])
        attempt = step["failures"] + 1
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
    return f"{key}@{version}"


def _new(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"arguments": wanted, "failures": 0}


def _settled(step: dict[str, Any]) -> dict[str, Any]:
    return {"status": "settled", "output": step["output"]}


def _policy(retry: Any) -> RetryPolicy:
    given = mapping({"retry": retry or {}}, "retry")
    chosen: dict[str, Any] = {
        name: number(given, name, *bounds) for name, bounds in RETRY.items() if name in given
    }
    return replace(ONCE, **chosen)


def _problem(schema: Any, value: Any) -> str | None:
    if schema is None:
        return None
    problems = schema_of(schema).problems(value)
    return str(problems[0]) if problems else None
