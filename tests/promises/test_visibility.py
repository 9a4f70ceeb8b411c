"""The visibility table of script tools: every cell, on a project that is read from its files.

Cell: the grant (= allowed), nf = TOOL_NOT_FOUND, np = NOT_PERMITTED.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.agents.agent import Agent
from penstock.chat.message import NewMessage
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.logs import settled
from tests.kit.project import ProjectFolder
from tests.kit.visibility import REFUSALS, Outcomes, outcomes, write_project

ORIGINS = ("M", "M0", "S", "S2", "C", "D", "D0", "H")
TABLE = """
list_available_skills | global | global | global | global | nf | global | global | global
read_text_file | tools | nf | tools | tools | nf | tools | np | np
write_text_file | nf | nf | np | np | nf | np | np | np
t_listed | tools | nf | tools | tools | nf | tools | np | np
t_helper | nf | nf | script_tools | script_tools | nf | script_tools | np | np
t_inline | inline | nf | inline | inline | nf | inline | np | np
t_req | tools | nf | tools | tools | nf | tools | np | np
t_reqh | nf | nf | script_tools | script_tools | nf | script_tools | np | np
t_other | nf | nf | np | np | nf | np | np | np
t_direct | nf | nf | direct_call | direct_call | direct_call | self | self | self
t_own | nf | nf | np | np | nf | own_script_tools | own_script_tools | own_script_tools
t_own2 | nf | nf | np | np | nf | np | np | np
t_plain | nf | nf | np | np | nf | np | np | np
t_perm | nf | nf | np | np | np | np | np | np
t_perm +p.send | nf | nf | direct_call | direct_call | direct_call | direct_call | direct_call | direct_call
search_knowledge | agent | agent | np | np | nf | np | np | np
nothing_such | nf | nf | nf | nf | nf | nf | nf | nf
"""  # noqa: E501
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
CELLS = [
    (row[0], origin, cell) for row in ROWS for origin, cell in zip(ORIGINS, row[1:], strict=True)
]
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
async def test_a_model_is_told_the_nearest_tool_that_it_can_see(
    project: ProjectFolder, skills: tuple[str, ...], hint: str
) -> None:
    """`TOOL_NOT_FOUND` for a model or an outside caller names the nearest id it can see."""
    write_project(project)
    model = ScriptedModel([call("t_lister"), say("Oh.")])
    async with project.opened(agents=[Agent(model=model)]) as runtime:
        sent = await runtime.send(NewMessage(content="Go", selected_skills=skills))
        await runtime.wait(sent.task_id)
        (refused,) = await settled(runtime, sent.session_id)
    assert refused.envelope.error
    assert refused.envelope.error.message == f"There is no tool 't_lister'.{hint}"
