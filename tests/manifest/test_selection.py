"""What comes with a skill."""

import pytest

from penstock.manifest.selection import SkillGrants, grant, order_skills
from penstock.manifest.skill import SkillManifest


def manifest(
    skill_id: str, *required: str, tools: tuple[str, ...] = (), helpers: tuple[str, ...] = ()
) -> SkillManifest:
    return SkillManifest(
        skill_id=skill_id,
        name="S",
        description="d",
        instruction="i",
        requires_skills=required,
        file=f"{skill_id}.skill.yaml",
        line=1,
        folder=".",
        tools=tools,
        script_tools=helpers,
    )


SKILLS = {
    each.skill_id: each
    for each in (
        manifest("a", "b", "d", tools=("t_a",), helpers=("h_a",)),
        manifest("b", "c"),
        manifest("c", "a", tools=("t_c",)),
        manifest("d", "c", "read_dir", "gone", helpers=("h_d", "h_a")),
        manifest("e"),
    )
}
ORDERS = [
    ([], ()),
    (["e"], ("e",)),
    (["a"], ("a", "b", "c", "d", "read_dir", "gone")),
    (["d", "b"], ("d", "c", "a", "b", "read_dir", "gone")),
    (["e", "e", "c"], ("e", "c", "a", "b", "d", "read_dir", "gone")),
]


@pytest.mark.parametrize(("chosen", "order"), ORDERS)
def test_required_skills_come_depth_first_each_once(
    chosen: list[str], order: tuple[str, ...]
) -> None:
    """Selected with it: depth first, in the listed order, each once."""
    assert order_skills(chosen, SKILLS) == order


def test_skills_grant_what_they_list_and_define_and_what_built_in_ones_give() -> None:
    assert grant(["a"], SKILLS, {"read_dir": ("read_dir",)}) == SkillGrants(
        skills=("a", "b", "c", "d", "read_dir"),
        tools=frozenset({"t_a", "t_c", "read_dir"}),
        script_tools=frozenset({"h_a", "h_d"}),
        missing=("gone",),
    )


def test_a_chain_of_thousands_is_followed_to_its_end() -> None:
    chain = {f"s{n}": manifest(f"s{n}", f"s{n + 1}") for n in range(2000)}
    assert len(order_skills(["s0"], chain)) == 2001
