"""The visibility table of script tools: every cell, on a project that is read from its files."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.chat.requests import NewMessage
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.logs import settled
from tests.kit.project import ProjectFolder
from tests.kit.visibility import CELLS, REFUSALS, Outcomes, outcomes, write_project

CODES = {"nf": "TOOL_NOT_FOUND", "np": "NOT_PERMITTED"}


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, machine_code: Path
) -> Mapping[tuple[str, bool], Outcomes]:
    return outcomes(tmp_path_factory.mktemp("visibility"), machine_code)


@pytest.mark.parametrize(
    ("tool", "origin", "cell"), CELLS, ids=[f"{tool}-{origin}" for tool, origin, _ in CELLS]
)
def test_every_cell(
    found: Mapping[tuple[str, bool], Outcomes], tool: str, origin: str, cell: str
) -> None:
    tool_id, _, permission = tool.partition(" +")
    outcome = found[origin, bool(permission)][tool_id]
    assert (outcome if outcome in REFUSALS else "") == CODES.get(cell, "")


@pytest.mark.parametrize(
    ("skills", "hint"), [(("a",), " Did you mean 't_listed'?"), ((), ""), (("b",), "")]
)
async def test_an_unknown_tool_suggests_the_nearest_visible_one(
    project: ProjectFolder, skills: tuple[str, ...], hint: str
) -> None:
    """`TOOL_NOT_FOUND` for a model or an outside caller names the nearest id it can see."""
    write_project(project)
    model = ScriptedModel([call("t_lister"), say("Oh.")])
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go", selected_skills=skills))
        await runtime.requests.wait(sent.task_id)
        (refused,) = await settled(runtime, sent.session_id)
    assert refused.envelope.error
    assert refused.envelope.error.message == f"There is no tool 't_lister'.{hint}"
