"""References to other flows."""

import pytest
from msgspec.structs import replace

from tests.flows.checks.around import SEED, beside, found_in
from tests.flows.texts import TOP


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
    ("path", "wanted"),
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
def test_a_path_leads_to_a_flow(path: str, wanted: str | None) -> None:
    """Only for paths without templates and globs."""
    found = [each for each in found_in(ref(path), beside(SEED, FLOWS)) if "template" not in each]
    assert found == ([] if wanted is None else [f"4 {wanted}"])


def test_a_cycle_among_others_is_told_where_it_is() -> None:
    others = {
        "flows/b.yaml": TOP + ref("c.yaml"),
        "flows/c.yaml": TOP + ref("b.yaml"),
    }
    assert found_in(ref("b.yaml", "a"), beside(SEED, others)) == []
    around = replace(beside(SEED, others), file="flows/b.yaml")
    assert found_in(ref("c.yaml"), around) == [
        (
            '4 error ref-cycle: step "r" refers to a flow that contains it: flows/b.yaml '
            "-> flows/c.yaml -> flows/b.yaml"
        )
    ]


@pytest.mark.parametrize(
    ("steps", "wanted"),
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
def test_ids_that_others_have_too_are_told(steps: str, wanted: list[str]) -> None:
    assert found_in(steps, beside(SEED, FLOWS)) == wanted


def test_a_chain_of_flows_without_an_end_is_given_up() -> None:
    flows = {f"flows/f{n}.yaml": TOP + ref(f"f{n + 1}.yaml") for n in range(400)}
    assert found_in(ref("f0.yaml", "a"), beside(SEED, flows)) == []
