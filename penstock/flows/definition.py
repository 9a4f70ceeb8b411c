"""A flow as its file declares it: steps in file order. The kinds are in `penstock/flows/steps`.

The fields mirror the fields of flow files. A definition has been parsed, but not yet checked
against anything outside its file.

Segments are the groups of steps that are scheduled together: a series of consecutive agent steps,
or one step of another kind. A step with `last: true` ends its segment. Dependencies (`blockedBy`)
matter only within a segment: an earlier segment is always finished before a later one starts.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from msgspec import Struct, field

from penstock.core.events.flow_events import STANDARD_FIELDS, Output, ValueType

ON_COMPLETE, ON_ERROR, BRANCHES = "on_complete", "on_error", "branches"
CAP = "cap"
DEFAULT_PARALLEL = 4
"""Default of `max_concurrent`: agent steps of a segment that work at once."""


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


class Route(Struct, frozen=True):
    """A jump that a step may make."""

    field: str
    """The field of the file that names the target."""
    target: str
    branch: str = ""
    """Name of the branch, if the jump is one."""
    label: str = ""
    """Its label in pictures; empty means the branch or the field."""
    is_limited: bool = False
    """`max_iterations` of the step may limit how often it is taken."""

    @property
    def name(self) -> str:
        """Name of the jump in pictures."""
        return self.label or self.branch or self.field


class Choice(Struct, frozen=True):
    """One possible outcome of a visit, as dry runs try it."""

    branch: str
    """Its name in reports: a branch, `on_error`, or `exit`, `loop` or `cap` of a loop step."""
    targets: tuple[str, ...] = ()
    """Steps it leads to; empty: control continues with the next segment."""
    fails: bool = False
    options: tuple[str, ...] = ()
    """Chosen options of a fork or a decision."""
    keys: tuple[str, ...] = ()
    """Where the file declares it."""

    @property
    def is_cap(self) -> bool:
        """Whether it repeats a loop until `max_iterations` ends it."""
        return self.branch == CAP and not self.options

    @property
    def is_reported(self) -> bool:
        """Whether reports list it as a branch."""
        return bool(self.branch)


SUCCESS = Choice("")


class Step(Struct, frozen=True, kw_only=True):
    """A step of any kind: its fields, and what the rest of the package asks of a kind.

    A kind without a field leaves it at its default. The class of a kind overrides those class
    variables and methods in which it differs, so that no other module distinguishes kinds.
    """

    kind: ClassVar[str] = ""
    """The `type:` of the file."""
    is_agent_work: ClassVar[bool] = False
    """An agent works on a task. Such steps form segments and may run at the same time; a step of
    any other kind is a segment of its own."""
    is_nested: ClassVar[bool] = False
    """It runs other flows."""
    runs_module: ClassVar[bool] = False
    """It runs a module of the project in the sandbox."""
    is_router: ClassVar[bool] = False
    """The step decides which step is next."""
    has_branches: ClassVar[bool] = False
    """It chooses among named branches."""
    asks_person: ClassVar[bool] = False
    """A person decides, unless the run is autonomous."""
    counts_visits: ClassVar[bool] = False
    """Each visit is one iteration of a loop. Other routers count the ways back they took."""
    expands: ClassVar[tuple[str, ...]] = ()
    """Fields with templates, in addition to the values of `inputs`."""
    is_shell_text: ClassVar[bool] = False
    """A shell reads those templates, so quotes around them matter."""

    step_id: str
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
    agent: str | None = None
    """The agent that works or decides."""
    task: str | None = None
    """A template; None means the task of the run."""
    model: str | None = None
    output: str | None = None
    """Hint for the agent: the file to write."""
    outputs: tuple[Output, ...] = ()
    """Declared fields of the result, in addition to the standard ones."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """Option -> step id."""
    question: str = ""
    """The question to a person."""
    is_multiple: bool = False
    """Several branches may be chosen at once."""
    target: str | None = None
    """File of the module of a code step; None means the default place beside the flow."""

    @property
    def limits_loops(self) -> bool:
        """Whether a loop through the step is limited, or a person is asked in each iteration."""
        return self.is_router and self.max_iterations is not None

    @property
    def loop_targets(self) -> tuple[str, ...]:
        """Where an iteration starts, if the step counts its visits."""
        return ()

    @property
    def exit_targets(self) -> tuple[str, ...]:
        """Where control goes at the limit; empty: it continues with the next segment."""
        return ()

    @property
    def tested(self) -> tuple[str, ...]:
        """Possible ids of the step whose result it tests, best first."""
        return ()

    @property
    def path_written(self) -> str | None:
        """The path of a flow reference or of a handler, as its author wrote it."""
        return self.target

    def has_agent_at_work(self, *, is_autonomous: bool) -> bool:
        """Whether a visit is the work of an agent."""
        del is_autonomous
        return self.agent is not None

    def routes(self) -> Iterator[Route]:
        """Yield the jumps that the step declares, including those to steps that do not exist."""
        if self.on_complete is not None:
            yield Route(ON_COMPLETE, self.on_complete)
        if self.on_error is not None:
            yield Route(ON_ERROR, self.on_error)
        yield from self.decisions()

    def decisions(self) -> Iterator[Route]:
        """Yield the jumps among which a router decides."""
        for name, target in self.branches.items():
            yield Route(BRANCHES, target, name, is_limited=True)

    def choices(self) -> tuple[Choice, ...]:
        """Return the possible outcomes of a visit, the most usual first."""
        if self.on_error is None:
            return tuple(self.ways_on())
        failure = Choice(ON_ERROR, (self.on_error,), fails=True, keys=(ON_ERROR,))
        return (*self.ways_on(), failure)

    def ways_on(self) -> Iterator[Choice]:
        """Yield the possible outcomes of a visit that does not fail, the most usual first."""
        if not self.branches:
            yield SUCCESS
        for name, target in self.branches.items():
            yield Choice(name, (target,), options=(name,), keys=(BRANCHES, name))

    def answer(self, choice: Choice) -> str | list[str]:
        """Return the `branch` with which an agent makes a choice."""
        return (*choice.options, *choice.targets)[0]

    def result_fields(self, of_agent: Sequence[str] | None) -> Sequence[str] | None:
        """Return the readable fields of its result; None if they are known only in a run.

        `of_agent` has the outputs that its agent declares; None if the agent is not known.
        """
        del of_agent
        return (*STANDARD_FIELDS, *(output.name for output in self.outputs))


class Flow(Struct, frozen=True, kw_only=True, dict=True):
    """A parsed flow."""

    name: str
    """Display name. The command follows from the path of the file."""
    description: str
    steps: tuple[Step, ...]
    max_concurrent: int = DEFAULT_PARALLEL
    needs_task: bool = False
    task_prompt: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[RunInput, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Step]:
        """Steps by id, in file order."""
        return {step.step_id: step for step in self.steps}


class Segments:
    """The segments of a flow, and the dependencies inside each segment."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = [tuple(segment) for segment in _cut(steps)]
        self.index = {
            step.step_id: number for number, segment in enumerate(self.all) for step in segment
        }
        """Step id -> index of its segment."""
        self._blocks: dict[str, list[str]] = {}
        for step in steps:
            for before in self.blockers(step):
                self._blocks.setdefault(before, []).append(step.step_id)

    def blockers(self, step: Step) -> list[str]:
        """Return the steps in the same segment that must finish before this step starts."""
        segment = self.index[step.step_id]
        return [each for each in dict.fromkeys(step.blocked_by) if self.index[each] == segment]

    def blocked_by(self, step_id: str) -> Sequence[str]:
        """Return the steps that wait for this one."""
        return self._blocks.get(step_id, ())

    def reach(self, targets: Iterable[str]) -> set[str]:
        """Return the targets and everything that depends on them, directly or not."""
        reached, queue = set[str](), deque(targets)
        while queue:
            step_id = queue.popleft()
            if step_id not in reached:
                reached.add(step_id)
                queue.extend(self.blocked_by(step_id))
        return reached

    def group(self, targets: Iterable[str]) -> list[tuple[str, ...]]:
        """Group targets by segment, in file order."""
        groups: dict[int, dict[str, None]] = {}
        for target in targets:
            groups.setdefault(self.index[target], {})[target] = None
        return [tuple(groups[number]) for number in sorted(groups)]


def _cut(steps: Iterable[Step]) -> Iterator[list[Step]]:
    segment: list[Step] = []
    for step in steps:
        if not step.is_agent_work:
            if segment:
                yield segment
            yield [step]
            segment = []
            continue
        segment.append(step)
        if step.is_last:
            yield segment
            segment = []
    if segment:
        yield segment
