"""The texts of a child, and its skills."""

import pytest

from penstock.chat.children.brief import ANY_RESULT, ROLES, TYPED_RESULT, additions, brief_text
from penstock.core.events.child_events import ChildRequested
from penstock.tools.tasks.child_forms import WORKERS
from tests.kit.child_events import STORED_OF_CHILDREN

PLAIN, FULL = (event for event, *_ in STORED_OF_CHILDREN if isinstance(event, ChildRequested))


def test_a_child_reads_its_title_its_objective_its_input_and_earlier_results() -> None:
    """wider.md §2.1: one user message."""
    assert brief_text(PLAIN, {}) == "Prices\n\nFind the prices."
    assert brief_text(FULL, {"first": [1]}) == (
        'Prices\n\nFind the prices.\n\nInput (JSON):\n{"n":1}\n\n'
        'Results of earlier tasks (JSON):\n{"first":[1]}'
    )


def test_every_kind_of_worker_has_a_sentence() -> None:
    assert set(ROLES) == set(WORKERS)


@pytest.mark.parametrize(
    ("child", "expected"),
    [(PLAIN, ("", ANY_RESULT)), (FULL, (ROLES["extractor"], TYPED_RESULT))],
    ids=["plain", "worker"],
)
def test_the_prompt_says_the_role_and_the_form_of_the_result(
    child: ChildRequested, expected: tuple[str, str]
) -> None:
    assert additions(child) == expected
