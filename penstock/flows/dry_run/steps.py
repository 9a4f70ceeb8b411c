"""Visits of steps in which nothing real happens: what comes of each is chosen by a PathChooser."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.events.step import Outcome, StepResult
from penstock.core.limits import World
from penstock.engine.bus import Bus
from penstock.flows.agents.agent_sessions import AgentEnvironment, AgentSessions, GetAgent
from penstock.flows.agents.materials import Materials
from penstock.flows.checks.reachability import PRESENT
from penstock.flows.code.steps import CodeSteps
from penstock.flows.definition import AgentStep, AnyStep, Code, Conditional, Flow, Shell, StepKind
from penstock.flows.dry_run.choices import SUCCESS, Choice
from penstock.flows.dry_run.path_chooser import PathChooser
from penstock.flows.dry_run.sample_values import (
    SAMPLE,
    finish_reply,
    simulated_agent,
    values_of,
    without_patterns,
)
from penstock.flows.runs.loops import RouteTaken
from penstock.flows.runs.run import Run
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.flows.steps.shell import ShellSteps
from penstock.flows.steps.step_context import StepContext, VisitResult
from penstock.flows.steps.step_runner import StepRunner
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply
from penstock.store.blobs.blobs import open_blobs
from penstock.tools.access.rules import Rules
from penstock.tools.invoker import Invoker
from penstock.tools.registry import Registry
from penstock.tools.resources import Resources
from penstock.tools.results.artifacts import Artifacts

_FAILS = failed("interrupted", "it fails, for once")
"""Nothing that was interrupted is tried again."""
_TOO_LATE = failed("interrupted", "the time of the dry run is over", is_hard=True)
_IN_REFERENCE = 4
"""Parts of a frame that lies below the visit of a step of the flow itself."""


class NoMaterials(Materials):
    """Gives agents nothing that lies in a file."""

    def filled(self, inputs: Mapping[str, str], agent: Agent) -> dict[str, str]:
        """Return the inputs as they are."""
        del agent
        return dict(inputs)


class SimulatedTools(Struct, frozen=True):
    """What agents that play their parts stand on: a door without a tool behind it."""

    get_agent: GetAgent
    world: World
    invoker: Invoker

    def agent_sessions(self, step: AnyStep, choice: Choice) -> AgentSessions:
        """Return sessions whose agents bring a choice about."""

        def reply(request: ModelRequest) -> ScriptedReply:
            return finish_reply(step, choice, request)

        environment = AgentEnvironment(
            get_agent=lambda name: simulated_agent(self.get_agent(name)),
            model=lambda agent, wanted: ScriptedModel(reply, record=False),
            materials=NoMaterials(),
        )
        return AgentSessions(environment, self.invoker, world=self.world, bus=Bus())

    def steps(self, step: AnyStep, choice: Choice) -> StepRunner:
        """Return what carries out visits of one step."""
        code = CodeSteps(None, lambda tool: self.invoker)
        shell = ShellSteps(None, self.invoker.threads)
        return StepRunner(self.agent_sessions(step, choice), code, shell, self.world)


def simulated_tools(get_agent: GetAgent, world: World) -> SimulatedTools:
    """Return what agents stand on that play the parts of those that there are."""
    resources = Resources(artifacts=Artifacts(open_blobs("memory:///"), world.limits, world.new_id))
    return SimulatedTools(get_agent, world, Invoker(Registry(()), Rules(), resources, world=world))


class SimulatedSteps(StepRunner):
    """Carries out the visits of one run."""

    def __init__(
        self, tools: SimulatedTools, run: Run, chooser: PathChooser, *, until: float
    ) -> None:
        first = run.flow.steps[0]
        super().__init__(
            tools.agent_sessions(first, SUCCESS),
            CodeSteps(None, lambda tool: tools.invoker),
            ShellSteps(None, tools.invoker.threads),
            tools.world,
        )
        self._tools = tools
        self._run = run
        self._chooser = chooser
        self._until = until
        self._inside: dict[int, tuple[Flow, PathChooser]] = {}
        """The choosers of flows that steps refer to."""
        self._entered: dict[str, Choice] = {}
        """What is to come of the visits of those steps, by their frames."""
        self.is_late = False

    async def visit(self, step: AnyStep, context: StepContext) -> VisitResult:
        """Return what the chooser wants to come of a visit."""
        if self._tools.world.clock.monotonic() >= self._until:
            self.is_late = True
            return VisitResult(ended=_TOO_LATE)
        if context.run is not self._run:
            if self._reference(context).fails:
                return VisitResult(ended=_FAILS)
            return await self._play(step, context, self._chooser_of(context.run.flow).choose(step))
        most = step.max_iterations
        if step.kind is StepKind.LOOP_DECISION and most is not None and context.visit > most:
            capped = next(each for each in self._chooser.choices[step.step_id] if each.is_cap)
            self._chooser.see(step.step_id, capped)
            return await self._play(step, context, capped)
        return await self._play(
            step, context, self._chooser.choose(step, self._possible(step, context))
        )

    async def _play(self, step: AnyStep, context: StepContext, choice: Choice) -> VisitResult:
        match step:
            case Conditional():
                result = StepResult(summary=choice.branch, branch=choice.branch)
                return VisitResult(ended=_well(result), route=RouteTaken(choice.targets))
            case Shell() | Code() if choice.fails:
                return VisitResult(ended=_FAILS)
            case Shell():
                values = context.run.values(step.config)
                values.text(step.command)
                context.warn_of_missing(values, step.step_id)
                return VisitResult(ended=_well(_made({"exitCode": 0, "stderr": SAMPLE})))
            case Code():
                return self._coded(step, context, choice)
            case AgentStep():
                step = replace(step, outputs=without_patterns(step.outputs))
            case _:
                pass
        return await self._tools.steps(step, choice).visit(step, context)

    def _coded(self, step: Code, context: StepContext, choice: Choice) -> VisitResult:
        values = context.run.values()
        for text in step.inputs.values():
            values.value(text)
        context.warn_of_missing(values, step.step_id)
        result = _made(values_of(step.outputs))
        if not choice.targets:
            return VisitResult(ended=_well(result))
        route = context.run.loops.route(step, choice.targets)
        return VisitResult(ended=_well(replace(result, branch=choice.branch)), route=route)

    def _possible(self, step: AnyStep, context: StepContext) -> tuple[Choice, ...]:
        """Return what can come of a visit; what never ran has left nothing to be found."""
        choices = self._chooser.choices[step.step_id]
        if not isinstance(step, Conditional):
            return choices
        checked = context.run.results.get(step.check) or context.run.results.get(
            step.check.rpartition(".")[0]
        )
        is_there = checked is not None and checked.status != "skipped"
        return choices if is_there else tuple(each for each in choices if each.branch != PRESENT)

    def _reference(self, context: StepContext) -> Choice:
        """Return what is to come of the step of the flow itself that a visit is a part of."""
        _, step_id, visit, *_ = context.frame.split("/", _IN_REFERENCE)
        frame = f"{step_id}/{visit}"
        if frame not in self._entered:
            self._entered[frame] = self._chooser.choose(self._run.flow.by_id[step_id])
        return self._entered[frame]

    def _chooser_of(self, flow: Flow) -> PathChooser:
        _, chooser = self._inside.setdefault(id(flow), (flow, PathChooser(flow, sees_all=False)))
        return chooser


def _well(result: StepResult) -> VisitOutcome:
    return VisitOutcome(outcome=Outcome.SUCCESS, result=result)


def _made(outputs: Mapping[str, object]) -> StepResult:
    return StepResult(summary=SAMPLE, full_output=SAMPLE, outputs=outputs)
