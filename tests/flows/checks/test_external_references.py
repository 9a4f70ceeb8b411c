"""Agents and other flows that steps name."""

import pytest
from msgspec.structs import replace

from penstock.flows.checks.context import AgentCard, CheckContext
from tests.flows.checks.findings import SEED, beside, codes_in, found_in
from tests.flows.texts import TOP

WIRED = '- {id: a, agent: writer, inputs: {notes: "x"}'
FORK = "- {id: a, question: q, branches: {x: a}, "
UNWIRED = (
    'warning input-not-wired: input "notes" of agent "writer" is not wired in step "a"; '
    'add "notes:" under inputs'
)
UNUSED = 'is used neither by agent "writer" nor by the task; it is appended to the message'


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            "- {id: a, agent: scuot}",
            '4 error unknown-agent: unknown agent "scuot" in step "a"; did you mean "scout"?',
        ),
        (
            "- {agent: scuot, id: ''}",
            '4 error unknown-agent: unknown agent "scuot" in step 1; did you mean "scout"?',
        ),
        (
            "- {id: a, agent: painter-of-walls}",
            (
                '4 error unknown-agent: unknown agent "painter-of-walls" in step "a"; '
                "write it with agent_write, or use one of: judge, scout, writer"
            ),
        ),
        (
            f"{FORK}agent: jugde}}",
            '4 error unknown-agent: unknown agent "jugde" in step "a"; did you mean "judge"?',
        ),
        (
            f"{FORK}decisionAgent: jugde}}",
            '4 error unknown-agent: unknown agent "jugde" in step "a"; did you mean "judge"?',
        ),
        (
            "- {id: a, agent: jugde, task: t, branches: {x: a, y: a}, max_iterations: 1}",
            '4 error unknown-agent: unknown agent "jugde" in step "a"; did you mean "judge"?',
        ),
        (
            "- {id: a, agent: jugde, task: t, loop_target: a, exit_target: a, max_iterations: 1}",
            '4 error unknown-agent: unknown agent "jugde" in step "a"; did you mean "judge"?',
        ),
        (
            "- {id: a, agent: broken}",
            (
                '4 error unknown-agent: unknown agent "broken" in step "a"; fix '
                "agents/broken.md first"
            ),
        ),
        ("- {id: a, agent: writer}", f"4 {UNWIRED}"),
        ("- {id: a, agent: writer,\n inputs: {}}", f"5 {UNWIRED}"),
        ("- {id: a, agent: writer,\n inputs: }", f"5 {UNWIRED}"),
        (
            "- {id: a, agent: writer, task: t, branches: {x: a, y: a}, max_iterations: 1}",
            f"4 {UNWIRED}",
        ),
        (
            f"{WIRED[:-1]},\n extra: y}}}}",
            f'5 warning input-not-used: input "extra" of step "a" {UNUSED}',
        ),
        (f"{WIRED}}}", None),
        (f"{WIRED[:-1]}, extra: y}}, task: '${{{{input.extra}}}}'}}", None),
        (f"{WIRED[:-1]}, seen: y}}}}", None),
        ("- {id: a, agent: scout}", None),
        (f"{FORK}agent: judge}}", None),
        (f"{FORK}}}", None),
    ],
)
def test_unknown_agents_and_unwired_inputs_are_reported(steps: str, expected: str | None) -> None:
    """Seed checks 3 and 7, and `input-not-used`."""
    writer = AgentCard(name="writer", inputs=("notes",), body_inputs=frozenset({"seen"}))
    check_context = replace(
        SEED,
        agents={**SEED.agents, "writer": writer},
        broken_agents={"broken": "agents/broken.md"},
    )
    reported = [
        each
        for each in found_in(steps, check_context)
        if "agent" in each and "old-name" not in each
    ]
    assert reported == ([] if expected is None else [expected])


def test_without_any_agent_the_advice_is_to_write_it() -> None:
    assert found_in("- {id: a, agent: b}", CheckContext()) == [
        '4 error unknown-agent: unknown agent "b" in step "a"; write it with agent_write'
    ]


def test_at_most_five_agents_are_suggested() -> None:
    names = [f"some-agent-{n}" for n in range(9)]
    check_context = CheckContext(agents={name: AgentCard(name=name) for name in names})
    (message,) = found_in("- {id: a, agent: b}", check_context)
    assert message.endswith(f"use one of: {', '.join(names[:5])}")


def test_a_step_of_an_unknown_kind_has_no_finding_about_its_agent() -> None:
    assert codes_in("- {id: a, type: agnt}") == ["4 error unknown-type"]


def ref(path: str, step_id: str = "r") -> str:
    return f"- {{id: {step_id}, path: '{path}'}}\n"


FLOWS = {
    "flows/one.yaml": TOP + "- {id: sum, agent: scout}\n",
    "flows/deep/two.yaml": TOP + ref("../demo.yaml"),
    "root.yaml": TOP + "- {id: x, agent: scout}\n",
    "flows/around.yaml": TOP + ref("around.yaml") + ref("deep/two.yaml"),
    "flows/demo.yaml": TOP + ref("deep/two.yaml"),
    "flows/broken.yaml": "[",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("one.yaml", None),
        ("./deep/../one.yaml", None),
        ("root.yaml", None),
        ("flows/one.yaml", None),
        ("../root.yaml", None),
        ("broken.yaml", None),
        ("*.yaml", None),
        ("${{task}}", None),
        ("/etc/${{task}}", None),
        ("none.yaml", 'warning ref-missing: no flow at "none.yaml" (step "r")'),
        ("$${{x.yaml", 'warning ref-missing: no flow at "$${{x.yaml" (step "r")'),
        ("/etc/x.yaml", 'error ref-outside: path of step "r" leaves the project: "/etc/x.yaml"'),
        ("../../x.yaml", 'error ref-outside: path of step "r" leaves the project: "../../x.yaml"'),
        ("..\\x.yaml", 'error ref-outside: path of step "r" leaves the project: "..\\\\x.yaml"'),
        (
            "demo.yaml",
            (
                'error ref-cycle: step "r" refers to a flow that contains it: '
                "flows/demo.yaml -> flows/demo.yaml"
            ),
        ),
        (
            "deep/two.yaml",
            (
                'error ref-cycle: step "r" refers to a flow that contains it: '
                "flows/demo.yaml -> flows/deep/two.yaml -> flows/demo.yaml"
            ),
        ),
        (
            "around.yaml",
            (
                'error ref-cycle: step "r" refers to a flow that contains it: '
                "flows/demo.yaml -> flows/around.yaml -> flows/deep/two.yaml -> "
                "flows/demo.yaml"
            ),
        ),
    ],
)
def test_a_path_that_leads_to_no_flow_is_reported(path: str, expected: str | None) -> None:
    """Only for paths without templates and globs."""
    reported = [each for each in found_in(ref(path), beside(SEED, FLOWS)) if "template" not in each]
    assert reported == ([] if expected is None else [f"4 {expected}"])


def test_a_cycle_among_other_flows_is_reported_in_those_only() -> None:
    others = {
        "flows/b.yaml": TOP + ref("c.yaml"),
        "flows/c.yaml": TOP + ref("b.yaml"),
    }
    assert found_in(ref("b.yaml", "a"), beside(SEED, others)) == []
    check_context = replace(beside(SEED, others), file="flows/b.yaml")
    assert found_in(ref("c.yaml"), check_context) == [
        (
            '4 error ref-cycle: step "r" refers to a flow that contains it: flows/b.yaml '
            "-> flows/c.yaml -> flows/b.yaml"
        )
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            ref("one.yaml") + "- {id: sum, agent: scout}\n",
            [
                (
                    '4 warning ref-collision: steps of "one.yaml" collide with others: '
                    "sum; use ${{result.r.…}}"
                )
            ],
        ),
        (
            ref("one.yaml", "sum"),
            [
                (
                    '4 warning ref-collision: steps of "one.yaml" collide with others: '
                    "sum; use ${{result.sum.…}}"
                )
            ],
        ),
        (ref("one.yaml") + ref("root.yaml", "s"), []),
        (ref("one.yaml") + ref("*", "s"), []),
    ],
)
def test_colliding_step_ids_are_reported(steps: str, expected: list[str]) -> None:
    assert found_in(steps, beside(SEED, FLOWS)) == expected


def test_an_endless_chain_of_flows_is_followed_up_to_a_limit() -> None:
    flows = {f"flows/f{n}.yaml": TOP + ref(f"f{n + 1}.yaml") for n in range(400)}
    assert found_in(ref("f0.yaml", "a"), beside(SEED, flows)) == []
