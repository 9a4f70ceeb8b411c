"""The agents of steps: whether they are known, and get the inputs that they want."""

from collections.abc import Iterator
from itertools import islice

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import AgentCard
from penstock.flows.checks.view import INPUTS, FlowView
from penstock.flows.definition import AgentDecision, AgentStep, Fork, LoopDecision
from penstock.flows.reading.steps import ParsedStep
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import quoted
from penstock.manifest.template import ValueSource, parse

FEW = 5
"""Agents that are named when none is near."""


def check_agents(view: FlowView) -> Iterator[Diagnostic]:
    """Yield what is wrong with the agents of a flow."""
    for each in view.steps:
        step = each.step
        if not isinstance(step, AgentStep | AgentDecision | LoopDecision | Fork) or not step.agent:
            continue
        card = view.card(step)
        if not isinstance(step, Fork) and step.model is not None:
            yield from _unheeded(view, each, step.model, None if card is None else card.thinking)
        if card is None:
            yield _unknown(view, each, step.agent)
        elif not isinstance(step, Fork):
            yield from _unwired(each, card)
            yield from _unused(each, card, step.task or "")


def _unknown(view: FlowView, each: ParsedStep, agent: str) -> Diagnostic:
    key = "agent" if "agent" in each.node.value else "decisionAgent"
    said = f"unknown agent {quoted(agent)} in {each.label}"
    return each.error("unknown-agent", said, each.node.at(key).key_place, _advice(view, agent))


def _advice(view: FlowView, agent: str) -> str:
    around = view.around
    if file := around.broken_agents.get(agent):
        return f"mend {file} first"
    if near := meant(view.near(agent, around.agents)):
        return near
    some = ", ".join(islice(sorted(around.agents), FEW))
    return (
        f"write it with agent_write, or use one of: {some}"
        if some
        else ("write it with agent_write")
    )


def _unheeded(
    view: FlowView, each: ParsedStep, name: str, level: str | None
) -> Iterator[Diagnostic]:
    """Yield that a step's model cannot be told what its agent, or the name of the model, wants."""
    model = view.around.unheeding(name, level)
    if model is not None:
        said = f"the model {quoted(model)} cannot be told how much to think; it is not"
        advice = "take the level out, or name a model that thinks"
        yield each.warning("thinking-unheeded", said, each.node.at("model").place, advice)


def _unwired(each: ParsedStep, card: AgentCard) -> Iterator[Diagnostic]:
    wired = each.node.value.get(INPUTS)
    is_there = isinstance(wired, dict)
    at = each.node.at(INPUTS).key_place if INPUTS in each.node.value else each.place
    for name in card.inputs:
        if not is_there or name not in wired:
            said = f'input "{name}" of agent "{card.name}" is not wired in {each.label}'
            yield each.warning("input-not-wired", said, at, f'add "{name}:" under inputs')


def _unused(each: ParsedStep, card: AgentCard, task: str) -> Iterator[Diagnostic]:
    of_task = {ref.names[0] for ref in parse(task).refs if ref.kind is ValueSource.INPUT}
    for name in each.step.inputs:
        if name in card.inputs or name in card.body_inputs or name in of_task:
            continue
        said = (
            f'input {quoted(name)} of {each.label} is used neither by agent "{card.name}" '
            "nor by the task"
        )
        at = each.node.at(INPUTS, name).key_place
        yield each.warning("input-not-used", said, at, "it is appended to the message")
