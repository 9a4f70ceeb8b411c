"""One case of a dataset, and the score of its reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Protocol, SupportsFloat, runtime_checkable

import msgspec
from msgspec import Struct
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from penstock.agents.attachments.content import Content
from penstock.app.runtime import Runtime
from penstock.core.errors import ConfigError
from penstock.core.events.events import QuestionAnswered
from penstock.core.foreign_code import takes
from penstock.core.json_values.json_text import parse_json
from penstock.core.messages import Usage
from penstock.core.reply import Reply
from penstock.core.task import QuestionStatus

OutputT = TypeVar("OutputT", default=Any)
PASSING = 0.5
"""The lowest value that passes, if a scorer does not say whether the reply passed."""


@dataclass(frozen=True)
class Score:
    """The score of one reply.

    Args:
        value: From 0 (useless) to 1 (perfect).
        reason: Why, in one sentence, for the report.
        passed: Whether the reply passes; None means that a value of at least 0.5 does.
        usage: The usage of a model that judged it, for the report; None if none was asked.

    Raises:
        ValueError: The value is below 0 or above 1.

    Example:
        >>> from penstock.evals import Score
        >>> Score(0.8, "polite, one detail is missing").has_passed
        True
    """

    value: float
    reason: str = ""
    passed: bool | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        """Check the value."""
        if not is_share(self.value):
            raise ValueError(f"the value of a Score is a number from 0 to 1, found {self.value!r}")

    @property
    def has_passed(self) -> bool:
        """Whether the reply passes."""
        return self.value >= PASSING if self.passed is None else self.passed


MAX_ANSWERS = 100
"""How many times an attempt is answered before it counts as endless."""
GRANTED: Mapping[str, Any] = {"decision": "approve"}
"""The answer that grants an approval."""


def is_of_person(event: object) -> bool:
    """Whether an event is the answer of a person to a question; others expired, or were closed."""
    return isinstance(event, QuestionAnswered) and event.status is QuestionStatus.ANSWERED


def is_text(value: object) -> bool:
    """Whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_list(value: object) -> bool:
    """Whether a value is a list or another sequence, but no text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def is_share(value: Any) -> bool:
    """Whether a value is a number from 0 to 1, or a bool."""
    return isinstance(value, SupportsFloat) and 0 <= float(value) <= 1


Verdict = bool | float | Score
"""The result of a scorer; True is 1 and False is 0."""


@dataclass(frozen=True)
class Case(Generic[OutputT]):
    """One input for an agent, and what is expected of the reply.

    Args:
        name: A name that is unique in the dataset.
        input: The message to the agent: a text, or a list with images and documents, too.
        expected: What `Equal` compares the output with; None expects nothing in particular. If
            neither the case nor its dataset has a scorer, `Equal` judges it.
        answers: What a person answers to the questions of the task, in the order in which it asks,
            as over HTTP: `{"decision": "reject", "note": "no"}`, `{"value": "Tokyo"}`.
        approve: Whether further approvals that the agent asks for are granted. A case that asks a
            person anything else fails.
        metadata: Anything that your own scorers read.
        scorers: Scorers of this case, in addition to those of the dataset.

    Raises:
        ConfigError: The name, the input or a scorer has another type.

    Example:
        >>> from penstock.evals import Case
        >>> Case("greets", input="Hello", expected="Hello!").name
        'greets'
    """

    name: str
    _: KW_ONLY
    input: Content
    expected: OutputT | None = None
    answers: Sequence[Mapping[str, Any]] = ()
    approve: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scorers: Sequence["AnyScorer[OutputT]"] = ()

    def __post_init__(self) -> None:
        """Check the fields now: a run would fail after it has asked other cases."""
        if not is_text(self.name):
            raise ConfigError(f"a case needs a name, such as Case('burns', …); found {self.name!r}")
        if not (isinstance(self.input, str) or is_list(self.input)):
            raise ConfigError(
                f"the input of the case {self.name!r} must be a text, or a list of texts and "
                f"files; found {self.input!r}"
            )
        answers: Sequence[object] = self.answers
        if not is_list(answers) or not all(isinstance(each, Mapping) for each in answers):
            raise ConfigError(
                f"answers= of the case {self.name!r} takes a list of mappings, such as "
                f"[{dict(GRANTED)!r}]; found {answers!r}"
            )
        check_scorers(self.scorers, f"the case {self.name!r}")


class Answered(Struct, frozen=True, kw_only=True):
    """A case with its reply, and all else that a scorer of an attempt may need."""

    case: Case[Any]
    reply: Reply[Any]
    seconds: float
    """From the start of the task to its end."""
    runtime: Runtime
    """The runtime of the run, in which a scorer can ask a model."""
    key: str
    """Names the attempt within its run, for requests that must not be made twice."""


@runtime_checkable
class AttemptScorer(Protocol):
    """A scorer that needs more than the reply.

    Contract: the same attempt gets the same score when its run goes on after a kill.
    """

    async def grade(self, answered: Answered) -> Score:
        """Return the score."""
        ...


Scorer = Callable[[Case[OutputT], Reply[OutputT]], Verdict | Awaitable[Verdict]]
"""Any function of a case and its reply; sync or async."""
AnyScorer = Scorer[OutputT] | AttemptScorer


def check_scorers(scorers: Sequence[Any], where: str) -> None:
    """Raise ConfigError for the first scorer that could not judge a reply."""
    if not is_list(scorers):
        raise ConfigError(f"scorers= of {where} takes a list, such as [Equal()]; found {scorers!r}")
    for scorer in scorers:
        if isinstance(scorer, type):
            raise ConfigError(
                f"{where} has the class {scorer.__name__} as a scorer: create an instance, such as "
                f"{scorer.__name__}(…)"
            )
        is_one = isinstance(scorer, AttemptScorer) or (callable(scorer) and takes(scorer, 2))
        if not is_one:
            raise ConfigError(
                f"a scorer is a function (case, reply) or one of penstock.evals; {where} has "
                f"{scorer!r}"
            )


def plain(value: Any) -> Any:
    """Return an output as JSON: models, dataclasses and structs become objects."""
    return parse_json(msgspec.json.encode(value, enc_hook=to_jsonable_python).decode())
