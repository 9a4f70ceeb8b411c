"""The project of the visibility table, and the outcome of every tool for each origin."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import tool
from penstock.agents.agent import Agent, ChatSettings
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewCall, NewMessage
from penstock.core.ids import ProfileId
from penstock.core.profile import Profile
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.logs import settled
from tests.kit.project import ProjectFolder

Outcomes = Mapping[str, str]
"""By tool: `ok`, or the code of the refusal."""

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
"""Tool, origin, and the result: the grant, nf = TOOL_NOT_FOUND, np = NOT_PERMITTED."""
TOOLS = (
    "list_available_skills",
    "read_text_file",
    "write_text_file",
    "t_listed",
    "t_helper",
    "t_inline",
    "t_req",
    "t_reqh",
    "t_other",
    "t_direct",
    "t_own",
    "t_own2",
    "t_plain",
    "t_perm",
    "search_knowledge",
    "nothing_such",
)
REFUSALS = frozenset({"TOOL_NOT_FOUND", "NOT_PERMITTED"})
ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"chat", "read"}))
SENDER = Profile(profile_id=ProfileId("bob"), permissions=frozenset({"chat", "read", "p.send"}))
SCRIPT = """
export async function run({ through = [], tools = [] }: any) {
  if (through.length) {
    const [tool_id, ...rest] = through;
    return (await flo.callTool({ tool_id, input: { through: rest, tools } })).output;
  }
  const found: Record<string, string> = {};
  for (const tool_id of tools) {
    const { error } = await flo.callTool({ tool_id, input: {} });
    found[tool_id] = error ? error.code : "ok";
  }
  return found;
}
"""
SKILLS = {
    "a": {
        "tools": "[read_text_file, t_listed]",
        "script_tools": "[t_helper]",
        "requires_skills": "[b]",
        "tool_definitions": """
  - name: t_inline
    description: Defined inside its skill.
    input_schema: {type: object}
    execution: {type: script, script: "export const run = () => 1"}""",
    },
    "b": {"tools": "[t_req]", "script_tools": "[t_reqh]"},
    "c": {"tools": "[t_other]"},
}


@tool(effect="read")
async def search_knowledge() -> str:
    """Search what the agent knows."""
    return "found"


def write_skill(project: ProjectFolder, skill_id: str, **members: str) -> None:
    """Write a skill with further members as YAML, in a folder of its own."""
    head = {"skill_id": skill_id, "name": skill_id.upper(), "description": "For tests."}
    fields = head | {"instruction": f"Mind skill {skill_id}."} | members
    text = "\n".join(f"{key}: {value}" for key, value in fields.items())
    project.write(f"skills/{skill_id}/{skill_id}.skill.yaml", text)


def write_project(project: ProjectFolder) -> None:
    """Write the project of the table."""
    for skill_id, members in SKILLS.items():
        write_skill(project, skill_id, **members)
    for name in ("t_listed", "t_req", "t_reqh", "t_other", "t_own", "t_own2", "t_plain"):
        project.tool(name, SCRIPT, direct_call="false")
    project.tool("t_helper", SCRIPT, direct_call="false", script_tools="[t_own2]")
    project.tool("t_direct", SCRIPT, script_tools="[t_own]")
    project.tool("t_perm", SCRIPT, requires_permissions="[p.send]")


def outcomes(root: Path, cache: Path) -> Mapping[tuple[str, bool], Outcomes]:
    """Return what each origin gets, without and with the permission of `t_perm`."""
    project = ProjectFolder(root, cache)
    write_project(project)
    return asyncio.run(_every(project))


async def _every(project: ProjectFolder) -> Mapping[tuple[str, bool], Outcomes]:
    every = say("That is all.")
    calls = [call(name) for name in TOOLS]
    asked = {"tools": list(TOOLS)}
    script = {
        "model": [sum(calls[1:], calls[0]), every],
        "script": [call("t_listed", **asked), every],
        "helper": [call("t_listed", through=["t_helper"], **asked), every],
    }
    settings = ChatSettings(result_max_chars=200_000)
    agents = [Agent("assistant", model=ScriptedModel(script), settings=settings)]
    outcomes: dict[tuple[str, bool], Outcomes] = {}
    async with project.opened(tools=[search_knowledge], agents=agents) as runtime:
        for profile in (ANN, SENDER):
            may = profile is SENDER
            outcomes["M", may] = await _of_model(runtime, profile, "model", ("a",))
            outcomes["M0", may] = await _of_model(runtime, profile, "model", ())
            outcomes["S", may] = await _of_script(runtime, profile, "script")
            outcomes["S2", may] = await _of_script(runtime, profile, "helper")
            outcomes["C", may] = await _outside(runtime, profile)
            outcomes["D", may] = await _direct(runtime, profile, asked, ("a",))
            outcomes["D0", may] = await _direct(runtime, profile, asked, ())
            own = {"through": ["t_own"], **asked}
            outcomes["H", may] = await _direct(runtime, profile, own, ())
    return outcomes


async def _say(runtime: Runtime, profile: Profile, text: str, skills: tuple[str, ...]) -> Any:
    sent = await runtime.requests.send(NewMessage(content=text, selected_skills=skills), profile)
    await runtime.requests.wait(sent.task_id)
    return [each for each in await settled(runtime, sent.session_id) if each.call_id]


async def _of_model(
    runtime: Runtime, profile: Profile, text: str, skills: tuple[str, ...]
) -> Outcomes:
    events = await _say(runtime, profile, text, skills)
    return {each.tool_id: _word(each.envelope.error) for each in events}


async def _of_script(runtime: Runtime, profile: Profile, text: str) -> Outcomes:
    (event,) = await _say(runtime, profile, text, ("a",))
    outcomes: Outcomes = event.envelope.output
    return outcomes


async def _outside(runtime: Runtime, profile: Profile) -> Outcomes:
    words = {}
    for name in TOOLS:
        envelope = await _called(runtime, profile, NewCall(tool_id=name, input={}))
        words[name] = _word(envelope.error)
    return words


async def _direct(
    runtime: Runtime, profile: Profile, input: dict[str, Any], skills: tuple[str, ...]
) -> Outcomes:
    asked = NewCall(tool_id="t_direct", input=input, selected_skills=skills)
    outcomes: Outcomes = (await _called(runtime, profile, asked)).output
    return outcomes


async def _called(runtime: Runtime, profile: Profile, asked: NewCall) -> Any:
    reply = await runtime.requests.wait(await runtime.start_call(asked, profile))
    assert reply is not None
    assert reply.envelope is not None, reply
    return reply.envelope


def _word(error: Any) -> str:
    return "ok" if error is None else str(error.code)
