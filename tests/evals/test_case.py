"""Cases, and outputs as JSON."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Struct
from pydantic import BaseModel

from penstock.evals.case import AttemptScorer, plain
from penstock.evals.scorers import Equal, Judge, MaxSeconds


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


def test_a_scorer_that_needs_more_than_the_reply_is_known_by_its_method() -> None:
    assert isinstance(Judge("m", "r"), AttemptScorer)
    assert isinstance(MaxSeconds(1), AttemptScorer)
    assert not isinstance(Equal(), AttemptScorer)
