"""The kind `agent-loop-decision`: what its agent may answer, and which step that means."""

import pytest

from penstock.flows.steps.loop_decision import LoopDecision


@pytest.mark.parametrize(
    ("again", "out", "answer", "expected"),
    [
        ("draft", "publish", "draft", "draft"),
        ("draft", "publish", "publish", "publish"),
        ("draft", "publish", "loop", "draft"),
        ("draft", "publish", "exit", "publish"),
        ("exit", "loop", "exit", "exit"),
        ("exit", "loop", "loop", "loop"),
    ],
)
def test_a_loop_accepts_step_ids_or_keywords(
    again: str, out: str, answer: str, expected: str
) -> None:
    """An id that is spelled `loop` or `exit` means that step."""
    step = LoopDecision(step_id="l", agent="j", task="?", loop_target=again, exit_target=out)
    assert answer in step.answers
    assert step.target_of(answer) == expected
