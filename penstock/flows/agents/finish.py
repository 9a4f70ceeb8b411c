"""`finish`: how the agent of a step ends its work, and what it must say."""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.schema import Problem, Schema
from penstock.core.step import FileUse, Output, StepResult, StepStatus
from penstock.flows.definition import LoopDecision
from penstock.manifest.fields import quoted

DONE = "Finished."
STATUSES = (StepStatus.COMPLETE, StepStatus.ERROR, StepStatus.BLOCKED)
_NOT_DONE = (StepStatus.ERROR, StepStatus.BLOCKED)
"""No set: what a model gives as its status may be a list."""
ACTIONS = ("created", "modified", "read")
AGAIN, OUT = "loop", "exit"
"""What the agent of a loop may say in place of the steps' ids."""
_MOST_KEPT = 256
"""Contracts whose schemas need not be compiled again."""
_FILE = {
    "type": "object",
    "required": ["path", "action"],
    "properties": {"path": {"type": "string"}, "action": {"enum": list(ACTIONS)}},
}


class AcceptedFinish(Struct, frozen=True):
    """A valid call of `finish`."""

    result: StepResult
    undeclared: tuple[str, ...] = ()
    """Parameters that nobody declared; they are dropped."""


class RejectedFinish(Struct, frozen=True):
    """A call of `finish` that does not count: the agent may try again."""

    problems: tuple[Problem, ...]
    is_bad_branch: bool = False


class FinishContract(Struct, frozen=True, kw_only=True, dict=True):
    """What `finish` takes in one visit of one step."""

    outputs: tuple[Output, ...] = ()
    branches: tuple[str, ...] = ()
    """Names to choose from; empty when the step decides nothing."""
    is_multiple: bool = False
    """Several branches may be chosen."""

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of what a model is offered."""
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
        """Return what a call amounts to.

        Missing `files` are none. An agent that could not do its work owes neither a branch nor the
        values it was to find.
        """
        given = {"files": [], **arguments}
        has_failed = given.get("status") in _NOT_DONE
        bad = None if has_failed or not self.branches else self._bad_branch(given)
        schema = self._lenient if has_failed else self._strict
        problems = tuple(each for each in schema.problems(given) if not _is_branch(each))
        if bad is not None:
            return RejectedFinish((Problem("/branch", bad), *problems), is_bad_branch=True)
        if problems:
            return RejectedFinish(problems)
        declared = {name: value for name, value in given.items() if name in self._declared}
        undeclared = tuple(name for name in given if name not in declared)
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

    def _bad_branch(self, given: Mapping[str, Any]) -> str | None:
        """Return what is wrong with the branch that was chosen, if anything is."""
        found = given.get("branch")
        if "branch" in given and not self._choice.problems(found):
            return None
        wanted = "a list of" if self.is_multiple else "one of"
        seen = quoted(found) if "branch" in given else "nothing"
        return f"branch must be {wanted} {', '.join(self.branches)}; found {seen}"

    def _result(self, given: Mapping[str, Any], *, has_failed: bool) -> StepResult:
        names = sorted(output.name for output in self.outputs)
        branch = None if has_failed or not self.branches else given["branch"]
        return StepResult(
            status=StepStatus(given["status"]),
            summary=given["summary"],
            artifacts=given.get("artifacts", ""),
            files=tuple(FileUse(each["path"], each["action"]) for each in given["files"]),
            branch=tuple(branch) if isinstance(branch, list) else branch,
            outputs={name: given[name] for name in names if name in given},
            finish=given,
        )


@lru_cache(_MOST_KEPT)
def compiled(contract: FinishContract) -> FinishContract:
    """Return an equal contract that was asked for before, if there is one: it is compiled."""
    return contract


def loop_branches(step: LoopDecision) -> tuple[str, ...]:
    """Return what the agent of a loop may answer: the steps, or the words for them."""
    return tuple(dict.fromkeys((step.loop_target, step.exit_target, AGAIN, OUT)))


def loop_target(step: LoopDecision, branch: str) -> str:
    """Return the step that an answer means; an id that is spelled like a word means that step."""
    if branch in {step.loop_target, step.exit_target}:
        return branch
    return step.loop_target if branch == AGAIN else step.exit_target


def merged(agent: Sequence[Output], step: Sequence[Output]) -> tuple[Output, ...]:
    """Return the outputs of an agent with those of its step; the step's win by name."""
    return tuple({each.name: each for each in (*agent, *step)}.values())


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
