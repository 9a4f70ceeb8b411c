"""Cases, and outputs as JSON."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct
from pydantic import BaseModel

from penstock.core.errors import ConfigError
from penstock.evals.case import AttemptScorer, Case, Score, plain
from penstock.evals.dataset import Dataset
from penstock.evals.scorers import Equal, Judge, MaxSeconds

BURNS: Case[Any] = Case("burns", input="It burns")


class Model(BaseModel):
    """A pydantic model."""

    a: int


@dataclass
class Data:
    """A dataclass."""

    a: int


class Fields(Struct):
    """A msgspec struct."""

    a: int


@pytest.mark.parametrize("value", [Model(a=1), Data(1), Fields(1), {"a": 1}], ids=repr)
def test_an_output_of_any_kind_is_plain_json(value: Any) -> None:
    assert plain(value) == {"a": 1}
    assert plain([value, (value,)]) == [{"a": 1}, [{"a": 1}]]


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (Case, {"name": 5}, r"needs a name, such as Case\('burns', …\); found 5"),
        (Case, {"name": " "}, "needs a name, .*; found ' '"),
        (Case, {"input": 5}, "input of the case 'a' must be a text, or a list .* found 5"),
        (Case, {"answers": ["yes"]}, r"such as \[{'decision': 'approve'}\]; found \['yes'\]"),
        (Case, {"answers": {"value": 1}}, "answers= of the case 'a' takes a list of mappings"),
        (Case, {"scorers": Equal()}, r"of the case 'a' takes a list, such as .* found Equal\(\)"),
        (Case, {"scorers": [Equal]}, r"has the class Equal .* such as Equal\(…\)"),
        (Case, {"scorers": [5]}, r"is a function \(case, reply\) .*; the case 'a' has 5"),
        (Case, {"scorers": [lambda case: case]}, r"a function \(case, reply\) .* <lambda>"),
        (Dataset, {"cases": 5}, r"such as Dataset\('triage', \[case\]\); found 'a' and 5"),
        (Dataset, {"name": [BURNS]}, r"takes a name and a list of cases, .*; found \[Case"),
        (Dataset, {"cases": [5]}, "the dataset 'a' takes Case objects, found 5"),
        (Dataset, {"scorers": ["equal"]}, "the dataset 'a' has 'equal'"),
    ],
)
def test_what_no_run_could_ask_or_score_is_refused_where_it_is_written(
    kind: Any, given: dict[str, Any], problem: str
) -> None:
    rest = {"input": "b"} if kind is Case else {"cases": [BURNS]}
    with pytest.raises(ConfigError, match=problem):
        kind(**({"name": "a"} | rest | given))


@pytest.mark.parametrize("value", [7, -0.1, float("nan"), "1", None])
def test_a_score_is_from_0_to_1(value: Any) -> None:
    with pytest.raises(ValueError, match="a number from 0 to 1, found"):
        Score(value)


def test_a_scorer_that_needs_more_than_the_reply_is_known_by_its_method() -> None:
    assert isinstance(Judge("m", "r"), AttemptScorer)
    assert isinstance(MaxSeconds(1), AttemptScorer)
    assert not isinstance(Equal(), AttemptScorer)
