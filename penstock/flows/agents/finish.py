"""`finish`: the tool by which the agent of a step ends its work and returns a result."""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.events.flow_events import FileUse, Output, StepResult, StepStatus
from penstock.core.json_values.schema import Problem, Schema
from penstock.manifest.fields import quoted

DONE = "Finished."
STATUSES = (StepStatus.COMPLETE, StepStatus.ERROR, StepStatus.BLOCKED)
_NOT_DONE = (StepStatus.ERROR, StepStatus.BLOCKED)
"""A tuple, not a set: a model may send a list as its status, and a list is not hashable."""
ACTIONS = ("created", "modified", "read")
AGAIN, OUT = "loop", "exit"
"""Words that the agent of a loop may answer instead of the step ids."""
_CACHE_SIZE = 256
"""Number of contracts whose compiled schemas are kept."""
_FILE = {
    "type": "object",
    "required": ["path", "action"],
    "properties": {"path": {"type": "string"}, "action": {"enum": list(ACTIONS)}},
}


class AcceptedFinish(Struct, frozen=True):
    """A valid call of `finish`."""

    result: StepResult
    undeclared: tuple[str, ...] = ()
    """Parameters that are not declared; they are dropped."""


class RejectedFinish(Struct, frozen=True):
    """A refused call of `finish`. The agent may try again."""

    problems: tuple[Problem, ...]
    is_bad_branch: bool = False


class FinishContract(Struct, frozen=True, kw_only=True, dict=True):
    """The parameters of `finish` in one visit of one step."""

    outputs: tuple[Output, ...] = ()
    branches: tuple[str, ...] = ()
    """Names to choose from; empty if the step makes no choice."""
    is_multiple: bool = False
    """Several branches may be chosen."""

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the parameters, as the model receives it."""
        required = ["status", "summary", "files"]
        properties: dict[str, Any] = {
            "status": {"enum": [each.value for each in STATUSES]},
            "summary": {
                "type": "string",
                "description": "What was accomplished, or what went wrong, in short.",
            },
            "artifacts": {"type": "string"},
            "files": {"type": "array", "items": _FILE},
        }
        if self.branches:
            properties["branch"] = self._branch()
            required.append("branch")
        for output in self.outputs:
            properties[output.name] = _schema_of(output)
            if output.is_required:
                required.append(output.name)
        return {
            "type": "object",
            "required": required,
            "additionalProperties": True,
            "properties": properties,
        }

    def judge(self, arguments: Json) -> AcceptedFinish | RejectedFinish:
        """Accept or reject a call.

        Missing `files` mean none. An agent that reports `error` or `blocked` owes neither a branch
        nor the declared outputs.
        """
        values = {"files": [], **arguments}
        has_failed = values.get("status") in _NOT_DONE
        bad = None if has_failed or not self.branches else self._branch_error(values)
        schema = self._lenient if has_failed else self._strict
        # The branch is checked on its own: its error is counted separately (`is_bad_branch`).
        problems = tuple(each for each in schema.problems(values) if not _is_branch(each))
        if bad is not None:
            return RejectedFinish((Problem("/branch", bad), *problems), is_bad_branch=True)
        if problems:
            return RejectedFinish(problems)
        declared = {name: item for name, item in values.items() if name in self._declared}
        undeclared = tuple(name for name in values if name not in declared)
        return AcceptedFinish(self._result(declared, has_failed=has_failed), undeclared)

    @cached_property
    def _strict(self) -> Schema:
        required = [name for name in self.parameters["required"] if name != "branch"]
        return Schema({**self.parameters, "required": required})

    @cached_property
    def _lenient(self) -> Schema:
        return Schema({**self.parameters, "required": ["status", "summary", "files"]})

    @cached_property
    def _choice(self) -> Schema:
        return Schema(self._branch())

    @cached_property
    def _declared(self) -> frozenset[str]:
        return frozenset(self.parameters["properties"])

    def _branch(self) -> dict[str, Any]:
        one = {"enum": list(self.branches)}
        if not self.is_multiple:
            return one
        return {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}

    def _branch_error(self, values: Mapping[str, Any]) -> str | None:
        """Return the error in the chosen branch, or None."""
        branch = values.get("branch")
        if "branch" in values and not self._choice.problems(branch):
            return None
        expected = "a list of" if self.is_multiple else "one of"
        answered = quoted(branch) if "branch" in values else "nothing"
        return f"branch must be {expected} {', '.join(self.branches)}; found {answered}"

    def _result(self, values: Mapping[str, Any], *, has_failed: bool) -> StepResult:
        names = sorted(output.name for output in self.outputs)
        branch = None if has_failed or not self.branches else values["branch"]
        return StepResult(
            status=StepStatus(values["status"]),
            summary=values["summary"],
            artifacts=values.get("artifacts", ""),
            files=tuple(FileUse(each["path"], each["action"]) for each in values["files"]),
            branch=tuple(branch) if isinstance(branch, list) else branch,
            outputs={name: values[name] for name in names if name in values},
            finish=values,
        )


@lru_cache(_CACHE_SIZE)
def compiled(contract: FinishContract) -> FinishContract:
    """Return an equal contract from the cache, with its schemas already compiled."""
    return contract


def merged(agent: Sequence[Output], step: Sequence[Output]) -> tuple[Output, ...]:
    """Return the outputs of an agent and of its step; the step overrides by name."""
    return tuple({output.name: output for output in (*agent, *step)}.values())


def _is_branch(problem: Problem) -> bool:
    return problem.path == "/branch" or problem.path.startswith("/branch/")


def _schema_of(output: Output) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if output.pattern is not None:
        schema["pattern"] = output.pattern
    elif output.value_type is not None:
        schema["type"] = output.value_type.value
    if output.description:
        schema["description"] = output.description
    return schema
