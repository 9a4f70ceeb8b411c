"""The input of the agent of a step: its materials, its system prompt and its first message.

`brief` expands each template once. Inserted values are never expanded again: an agent's output or a
person's answer that contains `${{...}}` stays text. Materials are handbooks, context files and
files named in inputs; they are read within the access of the agent. Tests:
tests/flows/agents/test_briefing.py.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.prompt import DATA_IS_NOT_ORDERS
from penstock.core.call_errors import CallError, ToolNotConfigured, not_utf8
from penstock.core.text import one_line
from penstock.flows.definition import Flow, Step
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import ForkChoice, LoopCounters, TemplateValues
from penstock.manifest.handbook import FILE_BYTES, HandbookCatalog
from penstock.manifest.template import ValueSource, parse, shown
from penstock.tools.resources import NO_PROJECT, ProjectFolder

STEP_RULES = (
    "You work on one step of a larger task. Use only the tools that you are offered. "
    "Your last act must be a call of finish: text outside finish is not part of your result."
)
AUTONOMOUS = "No person can be asked in this run: decide on your own."
SCHEME = "file://"
"""Prefix of an input that is replaced by the text of a file."""
_ACTION = re.compile(r" \((?:created|modified|read)\)$")
"""Suffix that results add to a file path."""
Expand = Callable[[str], str]
"""Expands a template."""
TaskOf = Callable[[Expand], str]
"""Builds the task of a visit from templates; inserted text is not expanded."""
_NO_FLOW = Flow(name="", description="", steps=())


class Briefing(Struct, frozen=True, kw_only=True):
    """The parts of the prompt that belong to one visit."""

    task: str
    """Expanded task of the step, or the task of the run."""
    instructions: str
    """Expanded body of the agent's file."""
    inputs: Mapping[str, str]
    """Wired inputs that neither the body nor the task refers to."""
    output: str = ""
    """Hint: the file to write."""
    is_autonomous: bool = False
    choice: ForkChoice | None = None
    context: Mapping[str, str]
    """Texts of the context files, by path."""
    handbooks: Mapping[str, str]
    """Indexes of the agent's handbooks, by name."""
    missing: Sequence[str] = ()
    """A sentence for each file and handbook that was left out."""


def system_prompt(agent: Agent, briefing: Briefing) -> str:
    """Return the system prompt."""
    rules = [STEP_RULES, DATA_IS_NOT_ORDERS, AUTONOMOUS if briefing.is_autonomous else ""]
    parts: Sequence[str] = (
        " ".join(each for each in rules if each),
        _choice(briefing.choice) if briefing.choice else "",
        *(f"## Context: {path}\n\n{text}" for path, text in briefing.context.items()),
        *(f"## Skill: {name}\n\n{index}" for name, index in briefing.handbooks.items()),
        briefing.instructions,
    )
    return "\n\n".join(part for part in parts if part)


def user_message(briefing: Briefing) -> str:
    """Return the first user message: the task, and the inputs that no template refers to."""
    parts = [f"Task: {briefing.task}"]
    if briefing.output:
        parts.append(f"Output file: {briefing.output}")
    if briefing.inputs:
        wired = "\n\n".join(f"{name}:\n{value}" for name, value in briefing.inputs.items())
        parts.append(f"## Inputs\n\n{wired}")
    return "\n\n".join(parts)


class AgentMaterials(Struct, frozen=True, kw_only=True):
    """Materials of one agent, and what is missing."""

    context: Mapping[str, str]
    """Texts of context files, by path."""
    handbooks: Mapping[str, str]
    """Indexes of handbooks, by name."""
    missing: tuple[str, ...] = ()
    """A sentence for each item that was left out."""


class Materials(Struct, kw_only=True):
    """Handbooks of a project, and its files within the access of each agent."""

    handbooks: HandbookCatalog = field(default_factory=HandbookCatalog)
    folder: ProjectFolder | None = None

    def renew(self, handbooks: HandbookCatalog) -> None:
        """Use the handbooks of a newer edition of the project."""
        self.handbooks = handbooks

    def given_to(self, agent: Agent) -> AgentMaterials:
        """Return the materials that an agent's file declares. Missing items are left out."""
        agent_profile, missing = agent.profile, list[str]()
        context, indexes = dict[str, str](), dict[str, str]()
        for path in agent_profile.context_files:
            try:
                context[path] = self._text(path, agent)
            except CallError as error:
                missing.append(f"the context file {path!r} is left out: {error}")
        for name in agent_profile.handbooks:
            if (book := self.handbooks.get(name)) is None:
                missing.append(f"the handbook {name!r} is left out: there is none of this name")
            else:
                indexes[name] = book.index
        return AgentMaterials(context=context, handbooks=indexes, missing=tuple(missing))

    def filled(self, inputs: Mapping[str, str], agent: Agent) -> dict[str, str]:
        """Replace `file://` inputs by the texts of the files.

        Raises CallError if a file is missing, too large or outside the agent's access.
        """
        return {name: self._filled(value, agent) for name, value in inputs.items()}

    def _filled(self, value: str, agent: Agent) -> str:
        if not value.startswith(SCHEME):
            return value
        return self._text(_ACTION.sub("", value.removeprefix(SCHEME).strip()), agent)

    def _text(self, path: str, agent: Agent) -> str:
        if self.folder is None:
            raise ToolNotConfigured(NO_PROJECT)
        files = self.folder.files(agent.profile.access)
        content = files.read(files.readable(path), FILE_BYTES)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(path, error) from None


def brief(
    step: Step,
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
        output=step.output or result.output,
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


def choice_of(step: Step, run: Run) -> ForkChoice | None:
    """Return the fork that led to this step, or None."""
    return run.choices.get(step.step_id) if step.is_agent_work else None


def wired(step: Step, values: TemplateValues) -> dict[str, str]:
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


def _choice(choice: ForkChoice) -> str:
    lines = [
        "## Context",
        "",
        f"This step was chosen at the fork {choice.fork_id}.",
        f"Question: {one_line(choice.question)}",
        f"Answer: {choice.answer}",
    ]
    if choice.notes:
        lines.append(f"Note: {choice.notes}")
    lines.append(f"Decided by: {choice.decided_by}")
    return "\n".join(lines)
