"""The kind `fork`: a person chooses a branch. If no person may be asked, an agent chooses.

A visit that resumes asks again and finds the answer in the log (`engine/suspend`), so nothing else
is kept of a question. An agent decides, in a session below the visit, in three cases: the run is
autonomous, the person leaves the choice to the agent, or the answer is none of the options.

Shown by tests/flows/steps/test_fork.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.events.flow_events import ABORTED, Outcome, StepResult
from penstock.core.ids import QuestionId
from penstock.core.limits import World
from penstock.core.task import Option, Question, QuestionKind
from penstock.engine.answers import OTHER
from penstock.engine.suspend import ask
from penstock.flows.agents.briefing import Expand, wired
from penstock.flows.agents.finish import FinishContract
from penstock.flows.checks.context import FlowView
from penstock.flows.definition import Choice, Step
from penstock.flows.parsed_flow import ParsedStep, StepNode
from penstock.flows.runs.run import Run
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.agent import agent_of, pursue
from penstock.flows.steps.kind import (
    AGENT,
    AGENT_NAME,
    BRANCHES,
    FLAG,
    MAX_ITERATIONS,
    ON_ERROR,
    TASK,
    TEXT,
    StepContext,
    StepField,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)
from penstock.manifest.authored_kinds import Item, Names, meant, named_items
from penstock.manifest.fields import quoted

DECIDER = "flow-decision"
"""The built-in agent that decides a fork if no person does and the step names no agent."""
DECIDE = "decide"
_DEFAULT_TASK = "Choose the option that fits best, and say why."
OPTIONS = "options"


class Fork(Step, frozen=True, kw_only=True):
    """A person chooses a branch. If no person may be asked, an agent chooses."""

    kind: ClassVar[str] = "fork"
    is_router: ClassVar[bool] = True
    has_branches: ClassVar[bool] = True
    asks_person: ClassVar[bool] = True
    expands: ClassVar[tuple[str, ...]] = ("question", "task")

    question: str
    branches: Mapping[str, str]
    options: tuple[str, ...]
    allows_custom: bool = False
    allows_notes: bool = True

    @property
    def limits_loops(self) -> bool:
        """True: a person is asked in each iteration and can end it."""
        return True

    def has_agent_at_work(self, *, is_autonomous: bool) -> bool:
        """Whether its agent decides without asking a person first."""
        return is_autonomous

    def ways_on(self) -> Iterator[Choice]:
        """Yield each branch, and all of them together if several may be chosen."""
        yield from super().ways_on()
        if self.branches and self.is_multiple and len(self.options) > 1:
            targets = tuple(dict.fromkeys(self.branches[each] for each in self.options))
            name = ", ".join(self.options)
            yield Choice(name, targets, options=self.options, keys=(BRANCHES.key, name))

    def answer(self, choice: Choice) -> str | list[str]:
        """Return the chosen option, or the list of them if several may be chosen."""
        return list(choice.options) if self.is_multiple else super().answer(choice)


async def _visit(step: Fork, context: StepContext, tools: StepTools) -> VisitResult:
    values = context.run.values()
    question = values.text(step.question, wired(step, values))
    context.warn_of_missing(values, step.step_id)
    visited = await _choose(step, context, tools, question)
    return replace(visited, question=question)


async def _choose(step: Fork, context: StepContext, tools: StepTools, question: str) -> VisitResult:
    if context.is_autonomous:
        return await _leave_to_agent(step, context, tools)
    asked = question_of(step, question, context.frame, tools.world)
    choice = choice_in((await ask(context.ledger, asked)).answer)
    if choice.is_cancelled:
        return cancelled(step)
    if choice.is_left_to_agent:
        return await _leave_to_agent(step, context, tools)
    if choice.is_of(step):
        return chosen(step, context.run, choice.options, notes=choice.notes)
    own_words = ", ".join(choice.options)
    return await _decide(step, context, tools, own_words, notes=choice.notes)


async def _leave_to_agent(step: Fork, context: StepContext, tools: StepTools) -> VisitResult:
    return replace(await _decide(step, context, tools, None), is_left_to_agent=True)


async def _decide(
    step: Fork, context: StepContext, tools: StepTools, own_words: str | None, *, notes: str = ""
) -> VisitResult:
    """Let an agent choose: the run is autonomous, or a person answered in their own words."""
    agent = agent_of(tools, context, step.agent or DECIDER)
    if isinstance(agent, VisitOutcome):
        return VisitResult(ended=agent)
    contract = FinishContract(
        outputs=agent.profile.outputs, branches=step.options, is_multiple=step.is_multiple
    )
    task = partial(decider_task, step, own_words)
    ended = await pursue(step, context, tools, agent, task=task, contract=contract)
    if ended.outcome is not Outcome.SUCCESS:
        return VisitResult(ended=ended, decided_by=agent.name)
    branch = ended.result.branch
    options = [branch] if isinstance(branch, str) else list(branch or ())
    note = notes if own_words is not None else ended.result.summary
    visited = chosen(step, context.run, options, notes=note, own_words=own_words)
    result = replace(visited.ended.result, outputs=ended.result.outputs)
    return replace(visited, ended=replace(visited.ended, result=result), decided_by=agent.name)


class PersonChoice(Struct, frozen=True, kw_only=True):
    """A person's answer at a fork."""

    options: Sequence[str] = ()
    """The chosen options, or the person's own words."""
    notes: str = ""
    is_cancelled: bool = False
    is_left_to_agent: bool = False

    def is_of(self, step: Fork) -> bool:
        """Whether the answer consists of options of the fork."""
        return bool(self.options) and all(each in step.options for each in self.options)


def choice_in(answer: Json) -> PersonChoice:
    """Parse an answer. One without a value cancels the run."""
    if answer.get("cancel") or ("value" not in answer and DECIDE not in answer):
        return PersonChoice(is_cancelled=True)
    notes = str(answer.get("notes", ""))
    if answer.get(DECIDE):
        return PersonChoice(notes=notes, is_left_to_agent=True)
    value = answer["value"]
    return PersonChoice(options=[value] if isinstance(value, str) else list(value), notes=notes)


def question_of(step: Fork, text: str, frame: CallPath, world: World) -> Question:
    """Return the question for a person. `text` is the expanded question of the fork."""
    labels = [*step.options, *[OTHER] * step.allows_custom]
    form: Json = {
        "type": "select",
        "multiSelect": step.is_multiple,
        "allowCustom": step.allows_custom,
        "allowNotes": step.allows_notes,
        "allowDecide": step.agent is not None,
        "stepId": step.step_id,
    }
    return Question(
        question_id=QuestionId(world.new_id("q")),
        kind=QuestionKind.FORK,
        text=text,
        path=frame,
        options=tuple(Option(label=each, value=each) for each in labels),
        form=form,
    )


def decider_task(step: Fork, own_words: str | None, expand: Expand) -> str:
    """Return the task of the agent that decides.

    `own_words` is what a person answered instead of an option. It is not expanded: a person must
    not be able to read values of the run by writing a template.
    """
    task = f"{expand(step.question)}\n\nOptions: {', '.join(step.options)}\n\n"
    if own_words is not None:
        task += f"A person answered in words of their own:\n{own_words}\n\n"
    return task + (expand(step.task) if step.task else _DEFAULT_TASK)


def chosen(
    step: Fork, run: Run, options: Sequence[str], *, notes: str, own_words: str | None = None
) -> VisitResult:
    """Return the outcome of a choice. `own_words` is a person's answer in place of an option."""
    targets = [step.branches[each] for each in step.options if each in options]
    branch = options[0] if not step.is_multiple else tuple(options)
    answer = own_words if own_words is not None else ", ".join(options)
    result = StepResult(summary=answer, full_output=answer, branch=branch)
    ended = VisitOutcome(outcome=Outcome.SUCCESS, result=result)
    route = run.loops.route(step, list(dict.fromkeys(targets)))
    return VisitResult(ended=ended, route=route, answer=answer, notes=notes)


def cancelled(step: Fork) -> VisitResult:
    """Return the outcome of a fork at which a person cancelled the whole run."""
    text = f"cancelled at fork {step.step_id}"
    result = replace(ABORTED, summary=text)
    ended = VisitOutcome(outcome=Outcome.ABORTED, result=result, source="aborted", text=text)
    return VisitResult(ended=ended)


def option_items(node: StepNode) -> list[Item]:
    """Return the options of a fork with their places. A text that is a branch name is not split."""
    options, branches = node.at("options"), node.value.get("branches")
    if isinstance(options.value, str) and isinstance(branches, dict) and options.value in branches:
        return [(options.value, options.key_place)]
    return named_items(options)


def _check(step: Fork, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield options without a branch, and branches without an option."""
    if OPTIONS not in parsed.node.value:
        return
    for option, place in option_items(parsed.node):
        if option not in step.branches:
            message = f"option {quoted(option)} of {parsed.label} has no branch"
            near = meant(view.near(option, step.branches)) or "add it under branches"
            yield parsed.error("option-without-branch", message, place, near)
    options = set(step.options)
    for name in step.branches:
        if name not in options:
            message = f"branch {quoted(name)} of {parsed.label} is not among its options"
            place = parsed.node.at(BRANCHES.key, name).key_place
            yield parsed.warning("branch-without-option", message, place)


def _add_options(node: StepNode, values: dict[str, Any]) -> None:
    """Offer the branches where no options are declared."""
    declared = tuple(text for text, _ in option_items(node))
    values[OPTIONS] = declared or tuple(values.get(BRANCHES.key, ()))


KIND = StepKind(
    step=Fork,
    fields=(
        AGENT,
        StepField(key="decisionAgent", attribute="agent", value=AGENT_NAME, new_name="agent"),
        TASK,
        needed(step_field("question", TEXT)),
        MAX_ITERATIONS,
        needed(BRANCHES),
        step_field(OPTIONS, Names(expected="a list of texts", is_split=True)),
        step_field("multiSelect", FLAG, "is_multiple"),
        step_field("allowCustom", FLAG, "allows_custom"),
        step_field("allowNotes", FLAG, "allows_notes"),
        ON_ERROR,
    ),
    visit=_visit,
    check=_check,
    complete=_add_options,
    implied_by="question",
)
