"""A flow as Mermaid text."""

from penstock.flows.graph import mermaid
from tests.flows.texts import read
from tests.flows.worked import W1, W6


def drawn(steps: str) -> list[str]:
    flow = read(steps).flow
    assert flow is not None
    return mermaid(flow).splitlines()


def test_a_segment_is_a_box_with_the_dependencies_in_it() -> None:
    assert drawn(W1) == [
        "flowchart TD",
        '  subgraph s1["1"]',
        '    n_web["web: agent"]',
        '    n_code["code: agent"]',
        '    n_report["report: agent"]',
        "  end",
        "  n_web --> n_report",
        "  n_code --> n_report",
    ]


def test_what_is_next_in_the_file_follows_and_a_loop_has_two_ways_out() -> None:
    lines = drawn(W6)
    assert "  s1 --> s2" in lines
    assert '    n_again{"again: agent-loop-decision"}' in lines
    assert lines[-2:] == [
        '  n_again -. "loop" .-> n_draft',
        '  n_again -. "exit" .-> n_publish',
    ]


def test_ways_have_the_words_of_their_branches() -> None:
    steps = """\
- {id: pick, question: Q, branches: {'Say "no"': a, Go: b}}
- {id: a, agent: scout, on_complete: b}
- {id: there, check: a, present: b, absent: b}
- {id: b, command: make, on_error: a-1}
- {id: a-1, agent: scout}
"""
    assert [line for line in drawn(steps) if "-." in line] == [
        '  n_pick -. "Say #quot;no#quot;" .-> n_a',
        '  n_pick -. "Go" .-> n_b',
        '  n_a -. "on_complete" .-> n_b',
        '  n_there -. "present" .-> n_b',
        '  n_there -. "absent" .-> n_b',
        '  n_b -. "on_error" .-> n_a__1',
    ]


def test_words_of_mermaid_are_safe_as_ids() -> None:
    assert '    n_end["end: agent"]' in drawn("- {id: end, agent: scout}\n")


def test_a_wait_for_a_step_that_is_not_there_is_left_out() -> None:
    lines = drawn("- {id: a, agent: scout, blockedBy: [nobody]}\n- {id: b, agent: scout}\n")
    assert not any("-->" in line for line in lines)
