"""The agents of steps."""

import pytest
from msgspec.structs import replace

from penstock.flows.checks.context import AgentCard, CheckContext
from tests.flows.checks.around import SEED, codes_in, found_in

WIRED = '- {id: a, agent: writer, inputs: {notes: "x"}'
FORK = "- {id: a, question: q, branches: {x: a}, "
UNWIRED = (
    'warning input-not-wired: input "notes" of agent "writer" is not wired in step "a"; '
    'add "notes:" under inputs'
)
UNUSED = 'is used neither by agent "writer" nor by the task; it is appended to the message'


@pytest.mark.parametrize(
    ("steps", "wanted"),
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
                '4 error unknown-agent: unknown agent "broken" in step "a"; mend '
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
def test_an_agent_is_known_and_gets_what_it_wants(steps: str, wanted: str | None) -> None:
    """Seed checks 3 and 7, and `input-not-used`."""
    writer = AgentCard(name="writer", inputs=("notes",), body_inputs=frozenset({"seen"}))
    around = replace(
        SEED,
        agents={**SEED.agents, "writer": writer},
        broken_agents={"broken": "agents/broken.md"},
    )
    found = [each for each in found_in(steps, around) if "agent" in each and "old-name" not in each]
    assert found == ([] if wanted is None else [wanted])


def test_without_any_agent_the_advice_is_to_write_it() -> None:
    assert found_in("- {id: a, agent: b}", CheckContext()) == [
        '4 error unknown-agent: unknown agent "b" in step "a"; write it with agent_write'
    ]


def test_at_most_five_agents_are_offered() -> None:
    names = [f"some-agent-{n}" for n in range(9)]
    around = CheckContext(agents={name: AgentCard(name=name) for name in names})
    (said,) = found_in("- {id: a, agent: b}", around)
    assert said.endswith(f"use one of: {', '.join(names[:5])}")


def test_a_step_of_an_unknown_kind_is_not_asked_for_an_agent() -> None:
    assert codes_in("- {id: a, type: agnt}") == ["4 error unknown-type"]
