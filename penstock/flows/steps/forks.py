"""Forks: the question to a person, the task of a deciding agent, and the choice."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Json
from penstock.core.events.flow_events import ABORTED, Outcome, StepResult
from penstock.core.ids import QuestionId
from penstock.core.limits import World
from penstock.core.task import Option, Question, QuestionKind
from penstock.engine.answers import OTHER
from penstock.flows.agents.briefing import Expand
from penstock.flows.definition import Fork
from penstock.flows.runs.run import Run
from penstock.flows.runs.visit_outcome import VisitOutcome
from penstock.flows.steps.step_context import VisitResult

DECIDE = "decide"
_DEFAULT_TASK = "Choose the option that fits best, and say why."


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
