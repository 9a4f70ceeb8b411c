"""Checks what steps name outside of the flow: agents with their inputs, and other flows.

Other flows are followed to find cycles: at most 200 of them, so that a project with many flows is
checked in bounded time.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic
from penstock.core.text import cut
from penstock.flows.checks.context import (
    INPUTS,
    AgentCard,
    CheckContext,
    FlowView,
    RefTarget,
    ResolvedRef,
    follow,
)
from penstock.flows.parsed_flow import ParsedStep
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import quoted
from penstock.manifest.template import ValueSource, parse

MAX_NAMED = 5
"""Number of agents named if no name is similar."""
PATH = "path"
LIST_CHARACTERS = 500
"""Limit on the list of colliding ids."""
MAX_FOLLOWED = 200
"""Limit on the flows followed in search of a cycle."""


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
    check_context = view.check_context
    if file := check_context.broken_agents.get(agent):
        return f"fix {file} first"
    if near := meant(view.near(agent, check_context.agents)):
        return near
    some = ", ".join(islice(sorted(check_context.agents), MAX_NAMED))
    return (
        f"write it with agent_write, or use one of: {some}"
        if some
        else ("write it with agent_write")
    )


def _ignored_level(
    view: FlowView, parsed: ParsedStep, name: str, level: str | None
) -> Iterator[Diagnostic]:
    """Yield a warning if a model ignores the thinking level of its agent or its name."""
    model = view.check_context.unheeding(name, level)
    if model is not None:
        message = f"the model {quoted(model)} has no levels of thinking: the level is ignored"
        advice = "remove the level, or name a model with thinking levels"
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


def check_refs(view: FlowView) -> Iterator[Diagnostic]:
    """Yield findings about flow-ref steps."""
    for ref in view.subflows.values():
        step, place = ref.step, ref.step.node.at(PATH).key_place
        path = quoted(step.step.path_written or "")
        match ref.leads:
            case RefTarget.OUTSIDE:
                message = f"path of {step.label} leaves the project: {path}"
                yield step.error("ref-outside", message, place)
            case RefTarget.MISSING:
                yield step.warning("ref-missing", f"no flow at {path} ({step.label})", place)
            case RefTarget.TO_A_FLOW:
                if way := _way_back(view.check_context, ref):
                    message = f"{step.label} refers to a flow that contains it: {' -> '.join(way)}"
                    yield step.error("ref-cycle", message, place)
                elif ids := _colliding(view, ref):
                    some = cut(", ".join(ids), LIST_CHARACTERS)
                    message = f"steps of {path} collide with others: {some}"
                    advice = f"use ${{{{result.{step.step_id}.…}}}}"
                    yield step.warning("ref-collision", message, place, advice)
            case RefTarget.OPEN:
                pass


def _colliding(view: FlowView, subflow: ResolvedRef) -> list[str]:
    """Return the ids that the flow itself or another flow-ref also has."""
    others = set(view.by_id)
    for other in view.subflows.values():
        if other is not subflow:
            others.update(other.brings or ())
    return [step_id for step_id in subflow.brings or () if step_id in others]


def _way_back(check_context: CheckContext, subflow: ResolvedRef) -> list[str]:
    """Return the files from the flow back to itself, or an empty list."""
    start = check_context.file
    queue, seen = [[start, subflow.path]], {subflow.path}
    while queue and start:
        way = queue.pop(0)
        if way[-1] == start:
            return way
        flow = check_context.flow_at(way[-1])
        if flow is None or len(seen) > MAX_FOLLOWED:
            continue
        for ref in follow(flow.steps, replace(check_context, file=way[-1])).values():
            if ref.leads is RefTarget.TO_A_FLOW and ref.path not in seen:
                seen.add(ref.path)
                queue.append([*way, ref.path])
    return []
