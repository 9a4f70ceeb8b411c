"""Checks the agents of steps: whether they exist, and whether their inputs are wired."""

from collections.abc import Iterator
from itertools import islice

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import AgentCard
from penstock.flows.checks.view import INPUTS, FlowView
from penstock.flows.parsed import ParsedStep
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import quoted
from penstock.manifest.template import ValueSource, parse

FEW = 5
"""Number of agents named if no name is similar."""


def check_agents(view: FlowView) -> Iterator[Diagnostic]:
    """Yield findings about the agents of a flow."""
    for parsed in view.steps:
        step = parsed.step
        if not step.agent:
            continue
        card = view.card(step)
        if step.model is not None:
            yield from _ignored_level(
                view, parsed, step.model, None if card is None else card.thinking
            )
        if card is None:
            yield _unknown(view, parsed, step.agent)
        elif not step.asks_person:
            yield from _unwired(parsed, card)
            yield from _unused(parsed, card, step.task or "")


def _unknown(view: FlowView, parsed: ParsedStep, agent: str) -> Diagnostic:
    key = "agent" if "agent" in parsed.node.value else "decisionAgent"
    message = f"unknown agent {quoted(agent)} in {parsed.label}"
    return parsed.error(
        "unknown-agent", message, parsed.node.at(key).key_place, _advice(view, agent)
    )


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


def _ignored_level(
    view: FlowView, parsed: ParsedStep, name: str, level: str | None
) -> Iterator[Diagnostic]:
    """Yield a warning if a model ignores the thinking level of its agent or its name."""
    model = view.around.unheeding(name, level)
    if model is not None:
        message = f"the model {quoted(model)} cannot be told how much to think; it is not"
        advice = "take the level out, or name a model that thinks"
        yield parsed.warning("thinking-unheeded", message, parsed.node.at("model").place, advice)


def _unwired(parsed: ParsedStep, card: AgentCard) -> Iterator[Diagnostic]:
    wired = parsed.node.value.get(INPUTS)
    is_there = isinstance(wired, dict)
    place = parsed.node.at(INPUTS).key_place if INPUTS in parsed.node.value else parsed.place
    for name in card.inputs:
        if not is_there or name not in wired:
            message = f'input "{name}" of agent "{card.name}" is not wired in {parsed.label}'
            yield parsed.warning("input-not-wired", message, place, f'add "{name}:" under inputs')


def _unused(parsed: ParsedStep, card: AgentCard, task: str) -> Iterator[Diagnostic]:
    of_task = {ref.names[0] for ref in parse(task).refs if ref.kind is ValueSource.INPUT}
    for name in parsed.step.inputs:
        if name in card.inputs or name in card.body_inputs or name in of_task:
            continue
        message = (
            f'input {quoted(name)} of {parsed.label} is used neither by agent "{card.name}" '
            "nor by the task"
        )
        place = parsed.node.at(INPUTS, name).key_place
        yield parsed.warning("input-not-used", message, place, "it is appended to the message")
