"""The system prompt."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.agents.prompt import DATA_IS_NOT_ORDERS, skill_prompt, system_prompt
from penstock.agents.settings import ChatSettings
from penstock.manifest.skill import SkillManifest
from penstock.tools.grants import NOTHING, Skills


@pytest.mark.parametrize(
    ("instructions", "own", "begins"),
    [
        ("Be kind.", None, "Be kind."),
        ("Be kind.", "Be brief.", "Be brief."),
        ("Be kind.", "", DATA_IS_NOT_ORDERS),
        ("", None, DATA_IS_NOT_ORDERS),
    ],
)
def test_the_agent_speaks_first(instructions: str, own: str | None, begins: str) -> None:
    settings = ChatSettings(llm_system_prompt=own)
    prompt = system_prompt(Agent(instructions=instructions, settings=settings))
    assert prompt.startswith(begins)
    assert prompt.endswith(DATA_IS_NOT_ORDERS)


@pytest.mark.parametrize(
    ("prompt_prefix", "skills", "prompt"),
    [
        ((), "", "Be kind."),
        (("First.",), "", "First.\n\nBe kind."),
        (("First.", "Then."), "Last.", "First.\n\nThen.\n\nBe kind.\n\nLast."),
        (("First.", ""), "", "First.\n\nBe kind."),
    ],
)
def test_the_project_speaks_before_the_agent_and_skills_after_it(
    prompt_prefix: Sequence[str], skills: str, prompt: str
) -> None:
    said = system_prompt(Agent(instructions="Be kind."), skills, prompt_prefix=prompt_prefix)
    assert said == f"{prompt}\n\n{DATA_IS_NOT_ORDERS}"


def skill(skill_id: str, instruction: str, *requires: str) -> SkillManifest:
    return SkillManifest(
        skill_id=skill_id,
        name=skill_id.title(),
        description="",
        instruction=instruction,
        requires_skills=requires,
        file=f"{skill_id}.skill.yaml",
        line=1,
        folder=skill_id,
    )


def test_a_skill_says_what_it_wants_and_lists_its_files(tmp_path: Path) -> None:
    """The prompt of a selected skill lists id, path, media type and size."""
    for name, text in (("table.csv", "a,b"), ("more/note.txt", "hello")):
        place = tmp_path / "one" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    one, two = skill("one", "Look it up.\n", "two"), skill("two", "Be exact.")
    skills = Skills({"one": one, "two": two}, tmp_path)
    assert skill_prompt(skills, skills.select(["one"])) == (
        "## Skill: One (one)\n\nLook it up.\n\n"
        "Resources, to be read with read_skill_resource:\n"
        "- resource.1: more/note.txt (text/plain, 5 bytes)\n"
        "- resource.2: table.csv (text/csv, 3 bytes)\n\n"
        "## Skill: Two (two)\n\nBe exact."
    )
    assert skill_prompt(skills, NOTHING) == ""
