"""Open questions, and answers to them."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, str, str]]


def test_where_nothing_waits_it_says_so(run: Run, run_json: Callable[..., Any]) -> None:
    assert run("answer")[2] == "nothing waits for an answer\n"
    assert run_json("answer") == {"questions": [], "total": 0}


def test_an_unknown_question_is_answered_with_where_to_look(run: Run) -> None:
    assert run("answer", "q_x", "approve") == (
        1,
        "",
        "Error: There is no question 'q_x'; `penstock answer` lists the open ones.\n",
    )
