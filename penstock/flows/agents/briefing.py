"""Puts the briefing of an agent together. Each template is expanded once.

Inserted values are never expanded again: an agent's output or a person's answer that contains
`${{...}}` stays text. Tests: tests/flows/agents/test_briefing.py.
"""

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
"""Builds the task of a visit from templates; inserted text is not expanded."""
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
    """Return the briefing for a visit. Without a task of the step, the task is that of the run.

    Raises CallError if an input names a file that the agent may not or cannot read.
    """
    inputs = materials.filled(wired(step, values), agent)
    templates: list[str] = []

    def expand(template: str) -> str:
        templates.append(template)
        return values.text(template, inputs)

    text = run.task if task is None else task(expand)
    result = _briefing(agent, text, inputs, values=values, materials=materials)
    named = _inputs_in(agent.instructions, *templates)
    return replace(
        result,
        inputs={name: value for name, value in inputs.items() if name not in named},
        output=getattr(step, "output", None) or result.output,
        choice=choice_of(step, run),
    )


def brief_call(
    agent: Agent, task: str, inputs: Mapping[str, str], *, materials: Materials
) -> tuple[Briefing, list[str]]:
    """Return the briefing for a call of an agent, and the placeholders that name nothing.

    Neither the task nor the inputs are expanded: they come from a model. Raises CallError as
    `brief`.
    """
    values = TemplateValues(flow=_NO_FLOW, task=task, results={}, loops=LoopCounters(_NO_FLOW))
    filled = materials.filled(inputs, agent)
    result = _briefing(agent, task, filled, values=values, materials=materials)
    named = _inputs_in(agent.instructions)
    rest = {name: value for name, value in filled.items() if name not in named}
    return replace(result, inputs=rest), values.take_missing()


def choice_of(step: AnyStep, run: Run) -> ForkChoice | None:
    """Return the fork that led to this step, or None."""
    return run.choices.get(step.step_id) if isinstance(step, AgentStep) else None


def wired(step: AnyStep, values: TemplateValues) -> dict[str, str]:
    """Return the inputs of a step as texts, as agents receive them."""
    return {name: shown(values.value(text)) for name, text in step.inputs.items()}


def _briefing(
    agent: Agent,
    task: str,
    inputs: Mapping[str, str],
    *,
    values: TemplateValues,
    materials: Materials,
) -> Briefing:
    materials_for_agent = materials.given_to(agent)
    return Briefing(
        task=task,
        instructions=values.text(agent.instructions, inputs),
        inputs=inputs,
        output=agent.profile.output,
        context=materials_for_agent.context,
        handbooks=materials_for_agent.handbooks,
        missing=materials_for_agent.missing,
    )


def _inputs_in(*texts: str) -> set[str]:
    refs = [ref for text in texts for ref in parse(text).refs]
    return {ref.names[0] for ref in refs if ref.kind is ValueSource.INPUT}
