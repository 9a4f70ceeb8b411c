"""A flow as its author wrote it: steps in the order of the file, each of one of nine kinds.

The fields are those of the flow files. A definition is text that was understood, not yet checked
against anything outside the file.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from penstock.core.events.step import Output, ValueType

AGENTS_AT_ONCE = 4
"""Agent steps of a segment at the same time, unless the flow says otherwise."""
SHELL_SECONDS = 1800
CODE_MS = 60_000
DECIDER = "flow-decision"
"""The agent that decides a fork when no person does and the step names none."""


class StepKind(StrEnum):
    """What a step does. The values are the `type:` of the file."""

    AGENT = "agent"
    FORK = "fork"
    CONDITIONAL = "conditional"
    AGENT_DECISION = "agent-decision"
    LOOP_DECISION = "agent-loop-decision"
    FLOW_REF = "flow-ref"
    SHELL = "shell"
    CODE = "code"
    CODE_DECISION = "code-decision"


ROUTERS = frozenset(
    {
        StepKind.FORK,
        StepKind.CONDITIONAL,
        StepKind.AGENT_DECISION,
        StepKind.LOOP_DECISION,
        StepKind.CODE_DECISION,
    }
)
"""The kinds that say which step is next."""


class RunInput(Struct, frozen=True, kw_only=True):
    """A value that a run of the flow takes."""

    name: str
    value_type: ValueType
    is_required: bool = False
    default: Any = None
    description: str = ""


class StepRetry(Struct, frozen=True):
    """How often a step that failed is tried again, and how far apart."""

    attempts: int = 3
    delay: int = 60
    """Seconds."""


class Step(Struct, frozen=True, kw_only=True):
    """What every step may have; what a kind does not know stays as it is here."""

    step_id: str
    kind: StepKind
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Name -> template."""
    blocked_by: tuple[str, ...] = ()
    on_complete: str | None = None
    on_error: str | None = None
    is_last: bool = False
    """After it, and after the rest of its segment, the flow ends with success."""
    retry: StepRetry | None = None
    max_iterations: int | None = None
    """How often a way back may be taken."""

    @property
    def is_router(self) -> bool:
        """Whether it says which step is next."""
        return self.kind in ROUTERS


class AgentStep(Step, frozen=True, kw_only=True):
    """An agent works until it calls `finish`."""

    kind: StepKind = StepKind.AGENT
    agent: str
    task: str | None = None
    """A template; None is the task of the run."""
    outputs: tuple[Output, ...] = ()
    """Besides those of the agent, and instead of those of the same name."""
    output: str | None = None
    """A hint at the file that it is to write."""
    model: str | None = None


class Fork(Step, frozen=True, kw_only=True):
    """A person chooses; where none may be asked, an agent does."""

    kind: StepKind = StepKind.FORK
    question: str
    branches: Mapping[str, str]
    """Option -> step."""
    options: tuple[str, ...]
    is_multiple: bool = False
    allows_custom: bool = False
    allows_notes: bool = True
    agent: str | None = None
    """Who decides instead of a person; None is the built-in one."""
    task: str | None = None


class Conditional(Step, frozen=True, kw_only=True):
    """Whether something was found decides."""

    kind: StepKind = StepKind.CONDITIONAL
    check: str
    """`STEP` or `STEP.FIELD`."""
    present: str
    absent: str


class AgentDecision(Step, frozen=True, kw_only=True):
    """An agent picks one of the branches."""

    kind: StepKind = StepKind.AGENT_DECISION
    agent: str
    task: str
    branches: Mapping[str, str]
    model: str | None = None


class LoopDecision(Step, frozen=True, kw_only=True):
    """An agent says whether to go round once more."""

    kind: StepKind = StepKind.LOOP_DECISION
    agent: str
    task: str
    loop_target: str
    exit_target: str
    model: str | None = None


class FlowRef(Step, frozen=True, kw_only=True):
    """Other flows, one after another."""

    kind: StepKind = StepKind.FLOW_REF
    path: str
    """A template: a path, or a glob."""


class Shell(Step, frozen=True, kw_only=True):
    """A command of the system."""

    kind: StepKind = StepKind.SHELL
    command: str
    timeout: int = SHELL_SECONDS
    """Seconds."""
    config: Mapping[str, Any] = field(default_factory=dict)
    is_idempotent: bool = False


class Code(Step, frozen=True, kw_only=True):
    """A handler in the sandbox."""

    kind: StepKind = StepKind.CODE
    outputs: tuple[Output, ...] = ()
    target: str | None = None
    """The handler's file; None is the one beside the flow."""
    timeout: int = CODE_MS
    """Milliseconds."""
    tools: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


class CodeDecision(Code, frozen=True, kw_only=True):
    """A handler in the sandbox that picks one of the branches."""

    kind: StepKind = StepKind.CODE_DECISION
    branches: Mapping[str, str]


AnyStep = (
    AgentStep
    | Fork
    | Conditional
    | AgentDecision
    | LoopDecision
    | FlowRef
    | Shell
    | Code
    | CodeDecision
)


class Flow(Struct, frozen=True, kw_only=True, dict=True):
    """A whole flow."""

    name: str
    """For people; the command comes from the path."""
    description: str
    steps: tuple[AnyStep, ...]
    max_concurrent: int = AGENTS_AT_ONCE
    needs_task: bool = False
    task_prompt: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[RunInput, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, AnyStep]:
        """Every step by its id."""
        return {step.step_id: step for step in self.steps}
