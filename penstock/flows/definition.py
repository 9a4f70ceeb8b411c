"""A flow as its file declares it: steps in file order, each of one of nine kinds.

The fields mirror the fields of flow files. A definition has been parsed, but not yet checked
against anything outside its file.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from penstock.core.events.flow_events import Output, ValueType

AGENTS_AT_ONCE = 4
"""Default of `max_concurrent`: agent steps of a segment that work at once."""
SHELL_SECONDS = 1800
CODE_MS = 60_000
DECIDER = "flow-decision"
"""The built-in agent that decides a fork if no person does and the step names no agent."""


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
"""Kinds of steps that decide which step is next."""


class RunInput(Struct, frozen=True, kw_only=True):
    """A typed input of a flow."""

    name: str
    value_type: ValueType
    is_required: bool = False
    default: Any = None
    description: str = ""


class StepRetry(Struct, frozen=True):
    """Retries after a soft failure."""

    attempts: int = 3
    delay: int = 60
    """Seconds between attempts."""


class Step(Struct, frozen=True, kw_only=True):
    """Fields that every step may have. A kind without a field leaves it at its default."""

    step_id: str
    kind: StepKind
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Name -> template."""
    blocked_by: tuple[str, ...] = ()
    on_complete: str | None = None
    on_error: str | None = None
    is_last: bool = False
    """The flow ends with success after this step and the rest of its segment."""
    retry: StepRetry | None = None
    max_iterations: int | None = None
    """Limit on how often a way back may be taken."""

    @property
    def is_router(self) -> bool:
        """Whether the step decides which step is next."""
        return self.kind in ROUTERS


class AgentStep(Step, frozen=True, kw_only=True):
    """An agent works until it calls `finish`."""

    kind: StepKind = StepKind.AGENT
    agent: str
    task: str | None = None
    """A template; None means the task of the run."""
    outputs: tuple[Output, ...] = ()
    """Added to the outputs that the agent declares; an equal name overrides."""
    output: str | None = None
    """Hint for the agent: the file to write."""
    model: str | None = None


class Fork(Step, frozen=True, kw_only=True):
    """A person chooses a branch. If no person may be asked, an agent chooses."""

    kind: StepKind = StepKind.FORK
    question: str
    branches: Mapping[str, str]
    """Option -> step id."""
    options: tuple[str, ...]
    is_multiple: bool = False
    allows_custom: bool = False
    allows_notes: bool = True
    agent: str | None = None
    """The agent that decides instead of a person; None means the built-in one."""
    task: str | None = None


class Conditional(Step, frozen=True, kw_only=True):
    """Chooses a branch by whether a result has a value."""

    kind: StepKind = StepKind.CONDITIONAL
    check: str
    """`STEP` or `STEP.FIELD`."""
    present: str
    absent: str


class AgentDecision(Step, frozen=True, kw_only=True):
    """An agent chooses one branch."""

    kind: StepKind = StepKind.AGENT_DECISION
    agent: str
    task: str
    branches: Mapping[str, str]
    model: str | None = None


class LoopDecision(Step, frozen=True, kw_only=True):
    """An agent decides whether to repeat."""

    kind: StepKind = StepKind.LOOP_DECISION
    agent: str
    task: str
    loop_target: str
    exit_target: str
    model: str | None = None


class FlowRef(Step, frozen=True, kw_only=True):
    """Runs other flows, one after another."""

    kind: StepKind = StepKind.FLOW_REF
    path: str
    """A template that expands to a path or a glob."""


class Shell(Step, frozen=True, kw_only=True):
    """Runs a command of the operating system."""

    kind: StepKind = StepKind.SHELL
    command: str
    timeout: int = SHELL_SECONDS
    """Seconds."""
    config: Mapping[str, Any] = field(default_factory=dict)
    is_idempotent: bool = False


class Code(Step, frozen=True, kw_only=True):
    """Runs a TypeScript module in the sandbox."""

    kind: StepKind = StepKind.CODE
    outputs: tuple[Output, ...] = ()
    target: str | None = None
    """File of the module; None means the default place beside the flow."""
    timeout: int = CODE_MS
    """Milliseconds."""
    tools: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


class CodeDecision(Code, frozen=True, kw_only=True):
    """Runs a TypeScript module in the sandbox that chooses one branch."""

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
    """A parsed flow."""

    name: str
    """Display name. The command follows from the path of the file."""
    description: str
    steps: tuple[AnyStep, ...]
    max_concurrent: int = AGENTS_AT_ONCE
    needs_task: bool = False
    task_prompt: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[RunInput, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, AnyStep]:
        """Steps by id, in file order."""
        return {step.step_id: step for step in self.steps}
