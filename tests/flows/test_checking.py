"""All checks together, on the examples of the seed and of the page, with lines."""

import pytest

from penstock.core.clock import SystemClock
from penstock.flows.checking import check_flow
from penstock.flows.checks.context import CheckContext
from penstock.flows.parsing import read_flow
from tests.flows.checks.findings import PLAIN, SEED, beside, found_in
from tests.flows.texts import TOP, finding_lines
from tests.kit.worked_examples import SUITES, W5, W10, WORKED

LOOK = "- id: look\n  agent: scout\n"
SEED_CHECKS = {
    "2: All step IDs are unique": (
        f"{LOOK}{LOOK}",
        ['6 error duplicate-step: duplicate step id "look"; first at line 4; rename one of them'],
    ),
    "3: All `agent:` references resolve to known agent names": (
        "- id: look\n  agent: scuot\n",
        ['5 error unknown-agent: unknown agent "scuot" in step "look"; did you mean "scout"?'],
    ),
    "4: All `blockedBy:` references point to earlier agent steps": (
        (
            f"{LOOK}  blockedBy: [tell]\n- id: gate\n  type: conditional\n  check: look.topics\n"
            "  present: tell\n  absent: tell\n- id: tell\n  agent: scout\n"
            "  blockedBy: [gate, lok]\n"
        ),
        [
            (
                '6 error bad-blocked-by: blockedBy of step "look" names "tell", which '
                'comes later (line 12); move "tell" before "look"'
            ),
            (
                '14 error bad-blocked-by: blockedBy of step "tell" names "gate", which '
                "is a conditional step; it runs before everything below it anyway; "
                "remove it"
            ),
            (
                '14 error bad-blocked-by: blockedBy of step "tell" names unknown step '
                '"lok"; did you mean "look"?'
            ),
        ],
    ),
    "5: All `branches:` target step IDs exist in the flow": (
        (
            "- id: pick\n  question: Go on?\n  options: [Go, Stop]\n  branches:\n    Go: look\n"
            f"    Stop: lock\n{LOOK}"
        ),
        [
            (
                '9 error unknown-step: branch "Stop" of step "pick" leads to unknown step '
                '"lock"; did you mean "look"?'
            )
        ],
    ),
    "6: All `loop_target` / `exit_target` step IDs exist": (
        (
            f"{LOOK}- id: again\n  agent: judge\n  task: Enough?\n  loop_target: lok\n"
            "  exit_target: end\n  max_iterations: 3\n"
        ),
        [
            (
                '9 error unknown-step: loop_target of step "again" names unknown step '
                '"lok"; did you mean "look"?'
            ),
            '10 error unknown-step: exit_target of step "again" names unknown step "end"',
        ],
    ),
    "7: Warning if declared agent `inputs:` are not wired in the flow step": (
        f"{LOOK}- id: tell\n  agent: writer\n  blockedBy: [look]\n",
        [
            (
                '6 warning input-not-wired: input "notes" of agent "writer" is not wired in '
                'step "tell"; add "notes:" under inputs'
            )
        ],
    ),
    "8: Warning for steps that reference undefined step IDs in template variables": (
        (
            f"{LOOK}- id: tell\n  agent: writer\n  blockedBy: [look]\n  inputs:\n"
            '    notes: "${{result.lok.topics}}"\n'
        ),
        [
            (
                '10 warning template-unknown-step: template in step "tell" refers to unknown '
                'step "lok"; did you mean "look"?'
            )
        ],
    ),
}


def test_the_first_check_of_the_seed() -> None:
    """Seed check 1: "Required fields present (`name`, `description`, `steps`)"."""
    assert found_in("name: demo\nsteps:\n- id: look\n  agent: scout\n", top="") == [
        (
            '1 error missing-field: missing required field "description"; add "description:" '
            "at the top of the file"
        )
    ]


@pytest.mark.parametrize("name", SEED_CHECKS)
def test_the_other_checks_of_the_seed(name: str) -> None:
    """Seed: "Validation checks performed"."""
    steps, expected = SEED_CHECKS[name]
    assert found_in(steps) == expected


@pytest.mark.parametrize("name", [name for name in WORKED if name not in {"W5", "W10"}])
def test_a_worked_example_has_no_findings(name: str) -> None:
    """Only the diagnostics named are given."""
    assert found_in(WORKED[name], PLAIN) == []


def test_branches_in_different_segments_run_into_each_other() -> None:
    """W5: branch-falls-through on the line of route."""
    assert found_in(W5, PLAIN) == [
        (
            '4 warning branch-falls-through: after branch "small" of step "route" the '
            'step "redesign" of branch "large" runs too; put both branches into one run '
            "of agent steps, or close the first with on_complete or end: true"
        )
    ]


def test_two_flows_that_bring_the_same_id_collide() -> None:
    """W10: ref-collision twice."""
    assert found_in(W10, beside(PLAIN, SUITES)) == [
        (
            '5 warning ref-collision: steps of "unit.yaml" collide with others: sum; use '
            "${{result.unit.…}}"
        ),
        (
            '7 warning ref-collision: steps of "load.yaml" collide with others: sum; use '
            "${{result.load.…}}"
        ),
    ]


HOSTILE = [
    "",
    "- 3",
    "steps: [{}]",
    "steps: [{id: a}, {id: a}, {id: [a]}, {type: {}}, 3, null]",
    "steps: [{id: a, type: conditional}, {id: b, type: fork}, {id: c, type: flow-ref}]",
    "steps: [{id: a, question: 3, branches: {x: 3}, options: {a: b}, inputs: 3}]",
    "steps: [{id: a, agent: 3, blockedBy: {a: b}, inputs: [3], outputs: {a: 3}}]",
    "steps: [{id: a, check: 3, present: a, absent: '', inputs: {a: 3}, task: [x]}]",
    "steps: [{id: a, path: '${{'}, {id: b, path: /etc/passwd}, {id: c, path: '\\0'}]",
    "steps: [{id: '#1', agent: b}, {agent: b, blockedBy: '#1'}]",
    (
        "steps: [{id: a, check: '.', present: a, absent: a}, {id: b, check: a.b.c.d, "
        "present: a, absent: a}]"
    ),
    "steps: [{id: a, loop_target: '', exit_target: '', agent: '', task: ''}]",
    f"steps: [{{id: a, agent: scout, task: '{'${{' * 3_000}'}}]",
    f"steps: [{{id: a, agent: scout, task: '{'{task}' * 3_000}'}}]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_checking_any_flow_never_raises(text: str) -> None:
    message = finding_lines(check_flow(read_flow(text, "flows/demo.yaml"), SEED))
    assert any("error" in each for each in message)


def test_a_flow_without_a_file_can_be_checked() -> None:
    text = f"{TOP}- {{id: a, agent: scout}}\n- {{id: b, type: code}}\n- {{id: c, path: x.yaml}}\n"
    check_context = CheckContext(agents=SEED.agents)
    assert finding_lines(check_flow(read_flow(text), check_context)) == [
        '6 warning ref-missing: no flow at "x.yaml" (step "c")'
    ]


def many(count: int) -> str:
    """Return a flow in which everything refers to something."""
    steps = [
        f"  - id: s{n}\n    agent: writer\n    blockedBy: [{'' if n % 5 == 1 else f's{n - 1}'}]\n"
        f'    inputs: {{notes: "{f"${{{{result.s{n - 1}.summary}}}}" if n > 1 else "x"}"}}\n'
        f"    task: |\n      Do ${{{{task}}}} with\n      ${{{{input.notes}}}}\n"
        if n % 5
        else f"  - {{id: s{n}, agent: judge, task: '${{{{loop.s{n}.iteration}}}}', "
        f"loop_target: s{max(n - 3, 1)}, exit_target: s{n + 1}, max_iterations: 3}}\n"
        for n in range(1, count + 1)
    ]
    return "".join(steps) + f"  - {{id: s{count + 1}, agent: scout}}\n"


def test_two_hundred_steps_are_checked_in_a_second() -> None:
    """A bound far above the 50 ms that it may take on a quiet machine."""
    read = read_flow(TOP + many(200), "flows/demo.yaml")
    clock = SystemClock()
    started = clock.monotonic()
    reported = check_flow(read, SEED)
    assert clock.monotonic() - started < 0.5
    assert reported == []


@pytest.mark.parametrize(
    "text",
    [
        TOP + "".join(f"- {{id: s{n}, agent: scout, odd: 1, more: 1}}\n" for n in range(600)),
        f"{TOP}- {{id: a, agent: scout, blockedBy: [{'b, ' * 1_500}]}}\n",
    ],
    ids=["in the text", "around it"],
)
def test_at_most_a_thousand_findings_of_a_check_are_reported(text: str) -> None:
    """And the flow cannot run, whatever the others are."""
    reported = check_flow(read_flow(text), SEED)
    assert len(reported) <= 1_001
    assert "too-many-findings" in {each.code for each in reported}
