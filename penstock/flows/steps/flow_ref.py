"""The kind `flow-ref`: runs other flows, one after another."""

from collections.abc import Sequence
from typing import ClassVar

from penstock.flows.definition import Step
from penstock.flows.steps.kind import (
    AFTERWARDS,
    INPUTS,
    TEXT,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)

PATH = "path"


class FlowRef(Step, frozen=True, kw_only=True):
    """Runs other flows, one after another."""

    kind: ClassVar[str] = "flow-ref"
    is_nested: ClassVar[bool] = True
    expands: ClassVar[tuple[str, ...]] = (PATH,)

    path: str
    """A template that expands to a path or a glob."""

    @property
    def path_written(self) -> str:
        """The path, before its templates are expanded."""
        return self.path

    def result_fields(self, of_agent: Sequence[str] | None) -> Sequence[str] | None:
        """Return None: the fields depend on the flow that the path leads to."""
        del of_agent
        return None


async def _visit(step: FlowRef, context: StepContext, tools: StepTools) -> VisitResult:
    del step, context, tools
    # A nested run needs the runner itself: it shares the limits and the log of the outer run.
    raise TypeError("flow-ref steps are run by the FlowRunner")


KIND = StepKind(
    step=FlowRef,
    fields=(needed(step_field(PATH, TEXT)), INPUTS, *AFTERWARDS),
    visit=_visit,
    implied_by=PATH,
    unless="agent",
)
