"""What agents, code and commands hand in when nothing is done."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.call import FINISH
from penstock.core.envelope import Json
from penstock.core.events.step import Output, StepStatus, ValueType
from penstock.flows.definition import Flow, Fork, LoopDecision, Step
from penstock.flows.dry_run.choices import EXIT, Choice
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
    """Return a value that fits; of a pattern for which no text is found, any text."""
    if output.pattern is None:
        return _VALUES[output.value_type or ValueType.STRING]
    if matches(output.pattern, SAMPLE):
        return SAMPLE
    return text_for(output.pattern) or SAMPLE


def values_of(outputs: Iterable[Output]) -> dict[str, Any]:
    """Return a value for each output."""
    return {each.name: value_of(each) for each in outputs}


def inputs_of(flow: Flow) -> Json:
    """Return inputs for a run."""
    given = {each.name: _VALUES[each.value_type] for each in flow.inputs}
    usual = {each.name: each.default for each in flow.inputs if each.default is not None}
    return given | usual


def without_patterns(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """Return outputs that take any text where they had a pattern."""
    return tuple(replace(each, pattern=None) if each.pattern else each for each in outputs)


def simulated_agent(agent: Agent) -> Agent:
    """Return an agent that plays its part: it has neither tools nor anything to read."""
    outputs = without_patterns(agent.profile.outputs)
    agent_profile = replace(
        agent.profile, tools=(), handbooks=(), context_files=(), outputs=outputs, max_turns=None
    )
    return dataclasses.replace(agent, tools=(), profile=agent_profile)


def finish_reply(step: Step, choice: Choice, request: ModelRequest) -> ScriptedReply:
    """Return the call of `finish` that brings a choice about, with every output it may have."""
    parameters = next(each.parameters for each in request.tools if each.name == FINISH)
    values = {
        name: _VALUES[ValueType(schema["type"])]
        for name, schema in parameters["properties"].items()
        if schema.get("type") in _VALUES
    }
    status = StepStatus.ERROR if choice.fails else StepStatus.COMPLETE
    values |= {"status": status.value, "summary": SAMPLE, "files": []}
    if "branch" in parameters["properties"] and not choice.fails:
        values["branch"] = _branch(step, choice)
    return call(FINISH, **values)


def _branch(step: Step, choice: Choice) -> str | list[str]:
    if isinstance(step, LoopDecision):
        return step.exit_target if choice.branch == EXIT else step.loop_target
    is_multiple = isinstance(step, Fork) and step.is_multiple
    return list(choice.options) if is_multiple else choice.options[0]
