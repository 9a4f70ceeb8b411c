"""A flow as Mermaid text."""

from penstock.flows.pictures.graph import mermaid
from tests.flows.texts import read
from tests.kit.worked import W1, W6


def drawn(steps: str) -> list[str]:
    flow = read(steps).flow
    assert flow is not None
    return mermaid(flow).splitlines()


def test_a_segment_is_a_box_with_the_dependencies_in_it() -> None:
    assert drawn(W1) == [
        "flowchart TD",
        '  subgraph s1["1"]',
        '    n1["web: agent"]',
        '    n2["code: agent"]',
        '    n3["report: agent"]',
        "  end",
        "  n1 --> n3",
        "  n2 --> n3",
    ]


def test_what_is_next_in_the_file_follows_and_a_loop_has_two_ways_out() -> None:
    lines = drawn(W6)
    assert "  s1 --> s2" in lines
    again = next(line for line in lines if "again: agent-loop-decision" in line)
    assert again == '    n4{"again: agent-loop-decision"}'
    assert lines[-2:] == ['  n4 -. "loop" .-> n2', '  n4 -. "exit" .-> n5']


def test_ways_have_the_words_of_their_branches() -> None:
    steps = """\
- {id: pick, question: Q, branches: {'Say "no"': a, Go: b}}
- {id: a, agent: scout, on_complete: b}
- {id: there, check: a, present: b, absent: b}
- {id: b, command: make, on_error: a-1}
- {id: a-1, agent: scout}
"""
    assert [line for line in drawn(steps) if "-." in line] == [
        '  n1 -. "Say #quot;no#quot;" .-> n2',
        '  n1 -. "Go" .-> n4',
        '  n2 -. "on_complete" .-> n4',
        '  n3 -. "present" .-> n4',
        '  n3 -. "absent" .-> n4',
        '  n4 -. "on_error" .-> n5',
    ]


def test_a_label_is_shown_as_it_is() -> None:
    """Jumps with labels: a branch may be called as one likes."""
    branches = r'{"<b>C#</b>\r\n x": a, No: a}'
    lines = drawn(f"- {{id: q, question: Q, branches: {branches}}}\n- {{id: a, agent: scout}}\n")
    assert '  n1 -. "#lt;b#gt;C#35;#lt;/b#gt; x" .-> n2' in lines


def test_words_of_mermaid_are_safe_as_ids() -> None:
    assert '    n1["end: agent"]' in drawn("- {id: end, agent: scout}\n")


def test_a_wait_for_a_step_that_is_not_there_is_left_out() -> None:
    lines = drawn("- {id: a, agent: scout, blockedBy: [nobody]}\n- {id: b, agent: scout}\n")
    assert not any("-->" in line for line in lines)


def test_steps_whose_ids_are_nearly_one_have_each_their_own_node() -> None:
    lines = drawn("- {id: a-b, agent: scout}\n- {id: a__b, agent: scout, blockedBy: [a-b]}\n")
    assert '    n1["a-b: agent"]' in lines
    assert '    n2["a__b: agent"]' in lines
    assert "  n1 --> n2" in lines


def test_a_jump_to_a_step_that_is_not_there_ends_at_its_name() -> None:
    (jump,) = [line for line in drawn("- {id: a, agent: scout, on_error: gone}\n") if "-." in line]
    assert jump == '  n1 -. "on_error" .-> n2["gone"]'
