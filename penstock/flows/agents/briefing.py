"""What the agent of a visit, or of a call, is told: each text expanded once."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.flows.agents.materials import Materials
from penstock.flows.agents.prompt import Briefing
from penstock.flows.definition import AgentStep, AnyStep, Flow
from penstock.flows.runs.fork_choice import ForkChoice
from penstock.flows.runs.loops import LoopCounters
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import TemplateValues
from penstock.manifest.template import ValueSource, parse, shown

Expand = Callable[[str], str]
"""Expands a template."""
TaskOf = Callable[[Expand], str]
"""Puts the task of a visit together: its templates are expanded, what was inserted is not."""
_NO_FLOW = Flow(name="", description="", steps=())


def brief(
    step: AnyStep,
    agent: Agent,
    task: TaskOf | None,
    *,
    run: Run,
    values: TemplateValues,
    materials: Materials,
) -> Briefing:
    """Return what the agent of a visit is told; without a task of the step, that of the run.

    Raises CallError for an input that names a file which the agent cannot read.
    """
    inputs = materials.filled(wired(step, values), agent)
    templates: list[str] = []

    def expand(template: str) -> str:
        templates.append(template)
        return values.text(template, inputs)

    text = run.task if task is None else task(expand)
    told = _briefing(agent, text, inputs, values=values, materials=materials)
    named = _inputs_in(agent.instructions, *templates)
    return replace(
        told,
        inputs={name: value for name, value in inputs.items() if name not in named},
        output=getattr(step, "output", None) or told.output,
        choice=choice_of(step, run),
    )


def brief_call(
    agent: Agent, task: str, inputs: Mapping[str, str], *, materials: Materials
) -> tuple[Briefing, list[str]]:
    """Return what an agent is told that no step put to work, and what its text names in vain.

    Neither the task nor the inputs are expanded. Raises CallError as `brief` does.
    """
    values = TemplateValues(flow=_NO_FLOW, task=task, results={}, loops=LoopCounters(_NO_FLOW))
    filled = materials.filled(inputs, agent)
    told = _briefing(agent, task, filled, values=values, materials=materials)
    named = _inputs_in(agent.instructions)
    rest = {name: value for name, value in filled.items() if name not in named}
    return replace(told, inputs=rest), values.take_missing()


def choice_of(step: AnyStep, run: Run) -> ForkChoice | None:
    """Return the fork that led here, if one did."""
    return run.choices.get(step.step_id) if isinstance(step, AgentStep) else None


def wired(step: AnyStep, values: TemplateValues) -> dict[str, str]:
    """Return the inputs of a step as agents get them: texts."""
    return {name: shown(values.value(text)) for name, text in step.inputs.items()}


def _briefing(
    agent: Agent,
    task: str,
    inputs: Mapping[str, str],
    *,
    values: TemplateValues,
    materials: Materials,
) -> Briefing:
    given = materials.given_to(agent)
    return Briefing(
        task=task,
        instructions=values.text(agent.instructions, inputs),
        inputs=inputs,
        output=agent.profile.output,
        context=given.context,
        handbooks=given.handbooks,
        missing=given.missing,
    )


def _inputs_in(*texts: str) -> set[str]:
    refs = [ref for text in texts for ref in parse(text).refs]
    return {ref.names[0] for ref in refs if ref.kind is ValueSource.INPUT}
