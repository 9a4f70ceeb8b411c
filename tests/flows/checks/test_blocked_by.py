"""What steps wait for."""

import pytest

from tests.flows.checks.around import found_in

FIRST = "- {id: a, agent: scout}\n"


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (f"{FIRST}- {{id: b, agent: scout, blockedBy: [a]}}", []),
        (f"{FIRST}- {{id: b, agent: scout, blockedBy: a}}", []),
        (f"{FIRST}- {{id: b, path: '*.yaml', blockedBy: [a]}}", []),
        (
            "- {id: a, agent: scout, blockedBy: [a]}",
            ['4 error bad-blocked-by: step "a" is blocked by itself'],
        ),
        (
            "- {id: a, agent: scout, blockedBy: 'b, c'}",
            [
                (
                    '4 error bad-blocked-by: blockedBy of step "a" names unknown step '
                    '"b"; did you mean "a"?'
                ),
                (
                    '4 error bad-blocked-by: blockedBy of step "a" names unknown step '
                    '"c"; did you mean "a"?'
                ),
            ],
        ),
        (
            "- {id: one, path: '*', blockedBy: [another]}",
            ['4 error bad-blocked-by: blockedBy of step "one" names unknown step "another"'],
        ),
        (
            "- {id: b, path: '*'}\n- {id: c, agent: scout, blockedBy: [b]}",
            [
                (
                    '5 error bad-blocked-by: blockedBy of step "c" names "b", which is a '
                    "flow-ref step; it runs before everything below it anyway; remove it"
                )
            ],
        ),
        (
            (
                "- {id: b, agent: judge, task: t, branches: {x: c, y: c}}\n- {id: c, "
                "agent: scout, blockedBy: [b]}"
            ),
            [
                (
                    '5 error bad-blocked-by: blockedBy of step "c" names "b", which is '
                    "an agent-decision step; it runs before everything below it anyway; "
                    "remove it"
                )
            ],
        ),
        (
            "- {id: b, command: x, on_error: c, blockedBy: [c]}\n- {id: c, agent: scout}",
            [
                (
                    '4 error bad-blocked-by: blockedBy of step "b" names "c", which '
                    'stands later (line 5); move "c" before "b"'
                )
            ],
        ),
    ],
)
def test_a_step_waits_for_earlier_agent_steps_alone(steps: str, wanted: list[str]) -> None:
    """Seed check 4: "All `blockedBy:` references point to earlier agent steps"; itself, too."""
    assert found_in(steps) == wanted
