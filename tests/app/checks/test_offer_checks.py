"""A project is told of agents with many tools, and of tools that say too little."""

import pytest

from penstock.app.checks.offer_checks import LEAST_DESCRIPTION, MOST_OFFERED, check_offers
from penstock.app.project import load_project
from penstock.app.settings import load
from tests.kit.project import ProjectFolder

HEAD = "from penstock import tool\n"


def told(project: ProjectFolder) -> list[str]:
    settings = load(project.root, cache_dir=str(project.cache))
    return [str(each) for each in check_offers(settings, load_project(settings))]


def tools(count: int) -> str:
    one = '@tool(effect="none")\ndef t{0}() -> str:\n    """{1}"""\n    return ""\n'
    return HEAD + "".join(one.format(each, "d" * LEAST_DESCRIPTION) for each in range(count))


@pytest.mark.parametrize(("over", "is_told"), [(0, False), (1, True)])
def test_an_agent_with_more_than_20_tools_is_told(
    project: ProjectFolder, over: int, is_told: bool
) -> None:
    project.write("tools/many.py", tools(MOST_OFFERED - 3 + over))  # three are built in
    project.write("agents/few.md", "---\nname: few\ndescription: Has few.\ntools: t1\n---\n")
    found = told(project)
    assert len(found) == is_told
    assert all('many-tools: agent "assistant" is offered 21 tools' in each for each in found)


def test_a_description_under_20_characters_is_told_at_its_place(project: ProjectFolder) -> None:
    short, long = "d" * (LEAST_DESCRIPTION - 1), "d" * LEAST_DESCRIPTION
    one = '@tool(effect="none")\ndef {0}() -> str:\n    """{1}"""\n    return ""\n'
    project.write("tools/own.py", HEAD + one.format("brief", short) + one.format("whole", long))
    (found,) = told(project)
    assert found == (
        'tools/own.py:2:1: warning short-description: the description of tool "brief" has 19 '
        "characters, fewer than 20; say what it does and when to call it"
    )
