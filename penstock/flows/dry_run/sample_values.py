"""Sample values in place of real results in dry runs."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.call import FINISH
from penstock.core.envelope import Json
from penstock.core.events.flow_events import Output, StepStatus, ValueType
from penstock.flows.definition import Choice, Flow, Step
from penstock.models.model import ModelRequest
from penstock.models.pattern_text import matches, text_for
from penstock.models.scripted import ScriptedReply, call

SAMPLE = "sample"
_VALUES: Mapping[ValueType, Any] = {
    ValueType.STRING: SAMPLE,
    ValueType.NUMBER: 1,
    ValueType.BOOLEAN: True,
    ValueType.OBJECT: {SAMPLE: SAMPLE},
    ValueType.ARRAY: [SAMPLE],
}


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
    return dataclasses.replace(agent, tools=(), profile=agent_profile)


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
