"""The kinds of steps, one row for each, and the entry point for visits.

A visit that was interrupted starts again from the top, with the same frame: the session, calls and
question that it had are found in the log under that frame and are not made a second time. The
`visit` of a kind must therefore do the same in each attempt; anything with an effect belongs behind
the ledger. Tests: tests/flows/steps/test_table.py.
"""

from collections.abc import Iterable, Mapping

from penstock.flows.definition import Step
from penstock.flows.steps import (
    agent,
    agent_decision,
    code,
    conditional,
    flow_ref,
    fork,
    loop_decision,
    shell,
)
from penstock.flows.steps.kind import (
    BLOCKED_BY,
    COMMON,
    StepContext,
    StepField,
    StepKind,
    StepTools,
    VisitResult,
)
from penstock.flows.steps.shell import why_off

_ROWS = (
    agent.KIND,
    fork.KIND,
    conditional.KIND,
    agent_decision.KIND,
    loop_decision.KIND,
    flow_ref.KIND,
    shell.KIND,
    code.KIND,
    code.DECISION_KIND,
)
KINDS: Mapping[str, StepKind] = {row.step.kind: row for row in _ROWS}
"""By the `type:` of the file."""
FIELDS_OF: Mapping[str, Mapping[str, StepField]] = {
    name: {field.key: field for field in (BLOCKED_BY, *kind.fields)} for name, kind in KINDS.items()
}
KNOWN = frozenset({*COMMON, *(key for fields in FIELDS_OF.values() for key in fields)})
"""Every key that a step of some kind may have."""
_INFERRED = (loop_decision, fork, conditional, shell, flow_ref, agent_decision)
"""Kinds to infer, most specific first: a loop may have a question, a reference branches."""


class StepRunner:
    """Carries out visits of all kinds of steps, except flow-ref."""

    def __init__(self, tools: StepTools) -> None:
        self._tools = tools

    @property
    def why_no_shell(self) -> str:
        """Reason why shell steps are not available; empty if they are."""
        return why_off(self._tools.project)

    async def visit(self, step: Step, context: StepContext) -> VisitResult:
        """Carry out a visit to its end.

        Raises Suspend if it waits for a person, Cancel if the cancellation of the run was
        requested.
        """
        return await KINDS[step.kind].visit(step, context, self._tools)


def owners(key: str) -> list[str]:
    """Return the kinds that have a field."""
    return [name for name, fields in FIELDS_OF.items() if key in fields]


def inferred(keys: Iterable[str]) -> tuple[str, str]:
    """Infer the kind of a step without `type`. Return it with the deciding key, or an empty one."""
    keys = set(keys)
    for module in _INFERRED:
        kind = module.KIND
        if kind.implied_by in keys and kind.unless not in keys:
            return kind.step.kind, kind.implied_by
    return agent.AgentStep.kind, ""
