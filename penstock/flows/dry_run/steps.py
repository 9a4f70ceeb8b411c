"""Step visits of dry runs: a PathChooser decides each outcome, and nothing real happens.

Sample values take the place of real results.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.call import FINISH
from penstock.core.envelope import Json
from penstock.core.events.flow_events import Outcome, Output, StepResult, StepStatus, ValueType
from penstock.core.limits import World
from penstock.engine.bus import Bus
from penstock.flows.agents.agent_runner import AgentEnvironment, AgentRunner, GetAgent
from penstock.flows.agents.briefing import Materials
from penstock.flows.definition import SUCCESS, Choice, Flow, Step
from penstock.flows.dry_run.path_chooser import PathChooser
from penstock.flows.runs.run import Run
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.conditional import PRESENT
from penstock.flows.steps.kind import StepContext, StepTools, VisitResult
from penstock.flows.steps.table import KINDS, StepRunner
from penstock.models.model import ModelRequest
from penstock.models.pattern_text import matches, text_for
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.store.blobs import open_blobs
from penstock.tools.artifacts import Artifacts
from penstock.tools.invoker import Invoker
from penstock.tools.policy import RuleSet
from penstock.tools.resources import Resources
from penstock.tools.tool import Registry

SAMPLE = "sample"
_VALUES: Mapping[ValueType, Any] = {
    ValueType.STRING: SAMPLE,
    ValueType.NUMBER: 1,
    ValueType.BOOLEAN: True,
    ValueType.OBJECT: {SAMPLE: SAMPLE},
    ValueType.ARRAY: [SAMPLE],
}
_TOO_LATE = failed("interrupted", "the time of the dry run is over", is_hard=True)
_IN_REFERENCE = 4
"""Number of parts of a frame below a flow-ref step of the flow itself."""


def value_of(output: Output) -> Any:
    """Return a value that fits an output; a plain sample if no text for its pattern is found."""
    if output.pattern is None:
        return _VALUES[output.value_type or ValueType.STRING]
    if matches(output.pattern, SAMPLE):
        return SAMPLE
    return text_for(output.pattern) or SAMPLE


def values_of(outputs: Iterable[Output]) -> dict[str, Any]:
    """Return a sample value for each output."""
    return {each.name: value_of(each) for each in outputs}


def inputs_of(flow: Flow) -> Json:
    """Return inputs for a run: defaults, else sample values."""
    samples = {each.name: _VALUES[each.value_type] for each in flow.inputs}
    defaults = {each.name: each.default for each in flow.inputs if each.default is not None}
    return samples | defaults


def without_patterns(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """Return the outputs without their patterns, so that any text fits."""
    return tuple(replace(each, pattern=None) if each.pattern else each for each in outputs)


def simulated_agent(agent: Agent) -> Agent:
    """Return an agent without tools and without anything to read."""
    outputs = without_patterns(agent.profile.outputs)
    agent_profile = replace(
        agent.profile, tools=(), handbooks=(), context_files=(), outputs=outputs, max_turns=None
    )
    return agent.__replace__(tools=(), tool_ids=(), profile=agent_profile)


def finish_reply(step: Step, choice: Choice, request: ModelRequest) -> ScriptedReply:
    """Return the `finish` call that causes a choice, with a value for every output."""
    parameters = next(each.parameters for each in request.tools if each.name == FINISH)
    values = {
        name: _VALUES[ValueType(schema["type"])]
        for name, schema in parameters["properties"].items()
        if schema.get("type") in _VALUES
    }
    status = StepStatus.ERROR if choice.fails else StepStatus.COMPLETE
    values |= {"status": status.value, "summary": SAMPLE, "files": []}
    if "branch" in parameters["properties"] and not choice.fails:
        values["branch"] = step.answer(choice)
    return call(FINISH, **values)


_FAILS = failed("interrupted", "it fails, for once")
"""Source `interrupted`, because it is never retried."""


class NoMaterials(Materials):
    """Materials that never read a file."""

    def filled(self, inputs: Mapping[str, str], agent: Agent) -> dict[str, str]:
        """Return the inputs unchanged."""
        del agent
        return dict(inputs)


class SimulatedTools(Struct, frozen=True):
    """The parts of scripted agents: an invoker without tools, and a model that calls `finish`."""

    get_agent: GetAgent
    world: World
    invoker: Invoker

    def agent_runner(self, step: Step, choice: Choice) -> AgentRunner:
        """Return agent sessions whose agents cause a choice."""

        def reply(request: ModelRequest) -> ScriptedReply:
            return finish_reply(step, choice, request)

        environment = AgentEnvironment(
            get_agent=lambda name: simulated_agent(self.get_agent(name)),
            model=lambda agent, expected: ScriptedModel(reply, record=False),
            materials=NoMaterials(),
        )
        return AgentRunner(environment, self.invoker, world=self.world, bus=Bus())

    def steps(self, step: Step, choice: Choice) -> StepRunner:
        """Return a StepRunner whose agents cause a choice."""
        return StepRunner(self.step_tools(step, choice))

    def step_tools(self, step: Step, choice: Choice) -> StepTools:
        """Return tools for visits without a project, with agents that cause a choice."""
        return StepTools(
            agent_runner=self.agent_runner(step, choice),
            invoker=self.invoker,
            world=self.world,
            invoker_with=lambda tool: self.invoker,
        )


def simulated_tools(get_agent: GetAgent, world: World) -> SimulatedTools:
    """Return the tools for the agents that `get_agent` finds."""
    resources = Resources(artifacts=Artifacts(open_blobs("memory:///"), world.limits, world.new_id))
    return SimulatedTools(
        get_agent, world, Invoker(Registry(()), RuleSet(), resources, world=world)
    )


class SimulatedSteps(StepRunner):
    """Carries out the visits of one dry run."""

    def __init__(
        self, tools: SimulatedTools, run: Run, chooser: PathChooser, *, until: float
    ) -> None:
        first = run.flow.steps[0]
        super().__init__(tools.step_tools(first, SUCCESS))
        self._simulated = tools
        self._run = run
        self._chooser = chooser
        self._until = until
        self._inside: dict[int, tuple[Flow, PathChooser]] = {}
        """Choosers of nested flows."""
        self._entered: dict[str, Choice] = {}
        """Chosen outcomes of flow-ref steps, by frame."""
        self.is_late = False

    async def visit(self, step: Step, context: StepContext) -> VisitResult:
        """Return the outcome that the chooser picks."""
        if self._simulated.world.clock.monotonic() >= self._until:
            self.is_late = True
            return VisitResult(ended=_TOO_LATE)
        if context.run is not self._run:
            if self._reference(context).fails:
                return VisitResult(ended=_FAILS)
            return await self._play(step, context, self._chooser_of(context.run.flow).choose(step))
        limit = step.max_iterations
        if step.counts_visits and limit is not None and context.visit > limit:
            capped = next(each for each in self._chooser.choices[step.step_id] if each.is_cap)
            self._chooser.see(step.step_id, capped)
            return await self._play(step, context, capped)
        return await self._play(
            step, context, self._chooser.choose(step, self._possible(step, context))
        )

    async def _play(self, step: Step, context: StepContext, choice: Choice) -> VisitResult:
        simulate = KINDS[step.kind].simulate
        if simulate is None:
            step = replace(step, outputs=without_patterns(step.outputs))
            return await self._simulated.steps(step, choice).visit(step, context)
        if choice.fails:
            return VisitResult(ended=_FAILS)
        result = _sample_result(simulate(step, context, values_of))
        if not choice.targets:
            return VisitResult(ended=_succeeded(result))
        route = context.run.loops.route(step, choice.targets)
        return VisitResult(ended=_succeeded(replace(result, branch=choice.branch)), route=route)

    def _possible(self, step: Step, context: StepContext) -> tuple[Choice, ...]:
        """Return the possible outcomes. A step that never ran cannot be `present`."""
        choices = self._chooser.choices[step.step_id]
        if not step.tested:
            return choices
        results = (context.run.results.get(name) for name in step.tested)
        checked = next((result for result in results if result is not None), None)
        has_run = checked is not None and checked.status != "skipped"
        return choices if has_run else tuple(each for each in choices if each.branch != PRESENT)

    def _reference(self, context: StepContext) -> Choice:
        """Return the chosen outcome of the flow-ref step that a nested visit belongs to."""
        _, step_id, visit, *_ = context.frame.split("/", _IN_REFERENCE)
        frame = f"{step_id}/{visit}"
        if frame not in self._entered:
            self._entered[frame] = self._chooser.choose(self._run.flow.by_id[step_id])
        return self._entered[frame]

    def _chooser_of(self, flow: Flow) -> PathChooser:
        _, chooser = self._inside.setdefault(id(flow), (flow, PathChooser(flow, sees_all=False)))
        return chooser


def _succeeded(result: StepResult) -> VisitOutcome:
    return VisitOutcome(outcome=Outcome.SUCCESS, result=result)


def _sample_result(outputs: Mapping[str, object]) -> StepResult:
    return StepResult(summary=SAMPLE, full_output=SAMPLE, outputs=outputs)
