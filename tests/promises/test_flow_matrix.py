"""The seed's matrix of callers and tools, in real chats and in real agent sessions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.builtins import TOOLS
from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.core.events.events import CallSettled
from penstock.core.ids import LogId
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.tools.invocation import Invocation
from tests.kit.architect import SETTINGS, at_work, is_session
from tests.kit.asking import ask
from tests.kit.flows import finish, run_flow, worker
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act

CHANGING = ("write", "edit", "bash")
"""What a chat asks a person about, unless a rule allows it."""
FILE_TOOLS = ("read", "write", "edit", "grep", "find", "ls", "bash")
AUTHORING = ("agent_catalog", "agent_write", "flow_write")
PLUGIN, GLOBAL, OTHER = "stamp", "list_available_skills", "csv_inspect"
"""A tool of a plugin, and two other built-in ones: of them chats here have the first."""
FAMILIES = ["files", "shell", "skills"]
"""The built-in tools that this project's chats have beside the core."""
REST = (PLUGIN, GLOBAL, OTHER)
ALL = ("ask_user", "skill_read", "subagent", "finish", *AUTHORING, *FILE_TOOLS, *REST)
ALWAYS = {"ask_user", "skill_read", "finish"}
AGENT = "---\nname: {name}\ndescription: d\ntools: {tools}\n---\nWork.\n"
EVERYTHING = ", ".join((*FILE_TOOLS, *REST))
COLUMNS = {
    "chat": {"ask_user", "skill_read", "subagent", *FILE_TOOLS, GLOBAL},
    "flow": {*ALWAYS},
    "declaring": {*ALWAYS, *FILE_TOOLS, *REST},
    "greedy": {*ALWAYS},
    "flow-architect": {*ALWAYS, *AUTHORING, "read", "grep", "find", "ls"},
    "own architect": {*ALWAYS, *AUTHORING, *FILE_TOOLS, *REST},
    "package": {*ALWAYS},
    "package-declaring": {*ALWAYS, *FILE_TOOLS, *REST},
}
"""What each column of the matrix may use: the chat, and agents by what they declare."""
NAMES = {"own architect": "flow-architect"}
"""The agents of columns that are not called like them."""
FLOW = "name: F\ndescription: d\nsteps:\n  - {id: a, agent: flow, task: t}\n"
INPUTS: dict[str, dict[str, Any]] = {
    "skill_read": {"skill": "flow-authoring", "file": "steps.md"},
    "agent_catalog": {},
    "agent_write": {"path": "made", "content": AGENT.format(name="made", tools="")},
    "flow_write": {"path": "made", "content": FLOW},
    "read": {"path": "notes.txt"},
    "write": {"path": "new.txt", "content": "x"},
    "edit": {"path": "more.txt", "oldText": "text", "newText": "words"},
    "grep": {"pattern": "text"},
    "find": {"pattern": "*.txt"},
    "ls": {},
    "bash": {"command": "echo hi"},
    PLUGIN: {"text": "hi"},
    GLOBAL: {},
}
"""The input of each tool. The other tools get an invalid input, whose error shows that they ran."""


class Stamp:
    """A tool as plugins write one."""

    id = PLUGIN
    description = "Stamps a text."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}
    effect = "read"

    def run(self, input: Any, ctx: Any) -> Any:
        return {"stamped": input}


def set_up(project: ProjectFolder, column: str) -> dict[str, Any]:
    """Write the agents of the table, and what calls find; returns how the project is opened."""
    greedy = ", ".join(("subagent", *AUTHORING))
    declared = {"flow": "", "declaring": EVERYTHING, "greedy": greedy}
    if column == "own architect":
        declared["flow-architect"] = EVERYTHING
    for name, tools in declared.items():
        project.write(f"agents/{name}.md", AGENT.format(name=name, tools=tools))
    for name, tools in {"package": "", "package-declaring": EVERYTHING}.items():
        project.write(f"pack/{name}.md", AGENT.format(name=name, tools=tools))
    project.write("handbooks/manual/SKILL.md", "---\nname: manual\nfiles: [a.md]\n---\n.")
    for name in ("notes.txt", "more.txt"):
        project.write(name, "some text\n")
    unasked = [f'[[rules]]\ntool = "{each}"\naction = "allow"\n' for each in CHANGING]
    shell = '[flows]\nshell = true\nshell_sandbox = "off"\n'
    project.write("penstock.toml", shell + "".join(unasked))

    def plugin(api: PluginApi) -> None:
        api.register_agents_dir(project.root / "pack")
        api.register_tool(Stamp())

    return {"plugins": [plugin]}


async def in_chat(
    project: ProjectFolder,
    *replies: ScriptedReply,
    opening: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> Any:
    """Have a chat make these replies; returns its model, and the outcomes by tool."""
    model = ScriptedModel([*replies, say("Done.")])
    settings = SETTINGS | {"tools": {"builtin": FAMILIES}}
    async with project.opened(models=[model], settings=settings, **opening) as runtime:
        reply = await ask(runtime, "Go", **more)
        records = await runtime.parts.storage.log.read(LogId(reply.session_id))
    events = [each.event for each in records]
    settled = {each.tool_id: each.envelope for each in events if isinstance(each, CallSettled)}
    return model, settled


def refused(envelope: Any) -> bool:
    """Whether a call did not reach its tool."""
    return envelope.error is not None and envelope.error.code in {
        "TOOL_NOT_FOUND",
        "NOT_PERMITTED",
    }


@pytest.mark.programs
@pytest.mark.slow("opens a project with a shell, and calls every tool")
@pytest.mark.parametrize("column", COLUMNS)
async def test_each_cell_of_the_matrix_is_offered_and_runs_or_neither(
    project: ProjectFolder, column: str
) -> None:
    """T01: "Tools are divided into three contexts": the seed's matrix, cell by cell; T45, T46."""
    opening, may = set_up(project, column), COLUMNS[column]
    first, *others = [call(each, **INPUTS.get(each, {"no_such": "x"})) for each in ALL]
    calls = [sum(others, first)]
    if column == "chat":
        model, settled = await in_chat(project, *calls, opening=opening)
        offered = [tool.name for tool in model.requests[0].tools]
    else:
        found = await at_work(project, *calls, agent=NAMES.get(column, column), **opening)
        offered, settled = found.offered, found.by_tool
    assert {each for each in ALL if each in offered} == may
    assert {each for each in ALL if not refused(settled[each])} == may
    assert {each for each in INPUTS if settled[each].ok} == may & set(INPUTS)


@pytest.mark.parametrize("column", COLUMNS)
async def test_permitted_agents_can_ask_and_finish(project: ProjectFolder, column: str) -> None:
    """T08, T01: `ask_user` in the main session and "all subagent sessions"; `finish` in these."""
    opening = set_up(project, column)
    agent = NAMES.get(column, column)
    chat = [ASK] if column == "chat" else [call("subagent", agent=agent, task="t")]
    chat, session = [*chat, say("Done.")], [ASK, finish("heard")]
    model = ScriptedModel(lambda request: (session if is_session(request) else chat).pop(0))
    async with project.opened(models=[model], settings=SETTINGS, **opening) as runtime:
        reply = await ask(runtime, "Go")
        (asked,) = reply.questions
        await runtime.requests.answer(asked.question.question_id, {"text": "the red one"})
        await runtime.requests.wait(reply.task_id)
    told = [each.messages[-1].content for each in model.requests]
    assert len([each for each in told if each == '{"answer":"the red one"}']) == 1
    if column != "chat":
        assert '"summary":"heard"' in told[-1]


async def test_a_chat_is_offered_its_three_tools_and_none_of_the_others(
    project: ProjectFolder,
) -> None:
    """T02, T05, T23: "They do not appear in the main session's system prompt"."""
    set_up(project, "chat")
    model, settled = await in_chat(project, call("finish", status="complete"))
    (request, *_) = model.requests
    offered = {tool.name for tool in request.tools}
    assert {"ask_user", "skill_read", "subagent"} <= offered
    assert not {"finish", *AUTHORING} & offered
    assert not [each for each in ("finish", *AUTHORING) if each in request.system]
    assert settled["finish"].error.code == "TOOL_NOT_FOUND"


async def test_a_chat_with_the_architect_itself_has_no_tools_of_agent_sessions(
    project: ProjectFolder,
) -> None:
    """T05: "They are not available to ordinary flow agents or the main LLM session"."""
    calls = [call(each) for each in AUTHORING]
    model, settled = await in_chat(project, *calls, agent="flow-architect")
    assert not set(AUTHORING) & {tool.name for tool in model.requests[0].tools}
    assert {settled[each].error.code for each in AUTHORING} == {"TOOL_NOT_FOUND"}


async def test_declared_tools_that_are_not_granted_are_reported_to_the_agent(
    project: ProjectFolder,
) -> None:
    """G18: such a tool "is not granted to agent", even if declared."""
    set_up(project, "greedy")
    found = await at_work(project, call("agent_catalog"), call("subagent"), agent="greedy")
    assert [each.error.message for _, each in found.outcomes if each.error] == [
        '"agent_catalog" is not granted to agent "greedy".',
        '"subagent" is not granted to agent "greedy".',
    ]


async def test_an_agent_that_a_tool_of_the_architect_starts_is_an_architect_too(
    project: ProjectFolder,
) -> None:
    """T04: "in any other agent session launched via the architect subprocess"."""
    project.write("agents/flow-architect.md", AGENT.format(name="flow-architect", tools="launch"))
    project.write("agents/inner.md", AGENT.format(name="inner", tools="launch"))
    project.write("agents/other.md", AGENT.format(name="other", tools="launch"))

    async def launching(input: Any, invocation: Invocation) -> Any:
        envelope = await invocation.invoke("subagent", {"agent": "inner", "task": "inner"})
        return envelope.output or (envelope.error and envelope.error.code)

    for agent, wanted in (("flow-architect", "done"), ("other", "NOT_PERMITTED")):
        outer, inner = [call("launch"), finish("outer")], [call("agent_catalog"), finish("done")]
        chat = [call("subagent", agent=agent, task="outer"), say("Done.")]

        def answer(
            request: ModelRequest,
            outer: list[ScriptedReply] = outer,
            inner: list[ScriptedReply] = inner,
            chat: list[ScriptedReply] = chat,
        ) -> ScriptedReply:
            if not is_session(request):
                return chat.pop(0)
            is_inner = request.messages[0].content == "Task: inner"
            return (inner if is_inner else outer).pop(0)

        model, launch = ScriptedModel(answer), Act("launch", launching)
        async with project.opened(models=[model], tools=[launch], settings=SETTINGS) as runtime:
            reply = await ask(runtime, "Go")
            records = await runtime.parts.storage.log.read(LogId(reply.session_id))
        settled = [each.event for each in records if isinstance(each.event, CallSettled)]
        (launched,) = [each for each in settled if each.tool_id == "launch"]
        assert wanted in str(launched.envelope.output)
        catalogs = [each.envelope.ok for each in settled if each.tool_id == "agent_catalog"]
        assert catalogs == ([True] if agent == "flow-architect" else [])


async def test_a_tool_of_a_program_is_there_for_agents_that_declare_it(
    project: ProjectFolder,
) -> None:
    """T06: "External packages can add tools to subagent sessions"; the agent must declare it."""
    project.write("agents/has.md", AGENT.format(name="has", tools="look"))
    project.write("agents/has-not.md", AGENT.format(name="has-not", tools=""))
    look = Act("look", is_offered=False)
    has = await at_work(project, call("look"), agent="has", tools=[look])
    has_not = await at_work(project, call("look"), agent="has-not", tools=[look])
    assert [envelope.ok for _, envelope in (*has.outcomes, *has_not.outcomes)] == [True, False]
    assert ("look" in has.offered, "look" in has_not.offered) == (True, False)
    assert not [
        each for each in has.model.requests if not is_session(each) and "look" in str(each.tools)
    ]


@pytest.mark.parametrize("tools", ["read, ls", "[read, ls]", "\n  - read\n  - ls"])
async def test_a_comma_text_and_a_list_grant_the_same(project: ProjectFolder, tools: str) -> None:
    """T45: "declared in frontmatter"."""
    project.write("agents/a.md", AGENT.format(name="a", tools=tools))
    project.write("notes.txt", "text\n")
    found = await at_work(
        project, call("read", path="notes.txt"), call("grep", pattern="t"), agent="a"
    )
    assert [envelope.ok for _, envelope in found.outcomes] == [True, False]


@pytest.mark.parametrize(
    ("asked", "meant"), [("raed", "read"), ("finsh", "finish"), ("list_available_skill", None)]
)
async def test_the_nearest_name_is_one_that_the_session_may_call(
    project: ProjectFolder, asked: str, meant: str | None
) -> None:
    """G19: `raed` is `TOOL_NOT_FOUND`, nearest `read`."""
    project.write("agents/a.md", AGENT.format(name="a", tools="read"))
    found = await at_work(project, call(asked), agent="a")
    error = found.outcomes[0][1].error
    assert error is not None
    hint = f" Did you mean {meant!r}?" if meant else ""
    assert (error.code, error.message) == ("TOOL_NOT_FOUND", f"There is no tool {asked!r}.{hint}")


async def test_an_agent_that_declares_find_may_call_it_glob(project: ProjectFolder) -> None:
    """13.2: "`find` (alias `glob`)"."""
    project.write("agents/a.md", AGENT.format(name="a", tools="find"))
    found = await at_work(project, call("glob", pattern="*.md"), agent="a")
    assert found.outputs() == ["agents/a.md"]
    assert "glob" not in found.offered


async def polling(input: Any, invocation: Invocation) -> Any:
    """Ask a person, as the code of a tool does."""
    envelope = await invocation.invoke("ask_user", {"question": "Which?", "type": "input"})
    return envelope.error and envelope.error.message


ASK = call("ask_user", question="Which?", type="input")
BLOCKED = "ask_user is blocked: {}. Decide on your own and go on."


async def test_a_non_interactive_agent_and_its_code_ask_no_person(
    project: ProjectFolder,
) -> None:
    """G16: `interactive: false`."""
    project.write("agents/b.md", AGENT.format(name="b", tools="poll\ninteractive: false"))
    found = await at_work(project, ASK, call("poll"), agent="b", tools=[Act("poll", polling)])
    said = BLOCKED.format('agent "b" is not interactive')
    (_, asked), (_, polled) = found.outcomes
    assert "ask_user" not in found.offered
    assert asked.error is not None
    assert (asked.error.message, polled.output) == (said, said)


async def test_an_autonomous_run_asks_no_person_and_continues() -> None:
    """T12, G16: "In autonomous mode, ask_user is blocked in subagent sessions"."""
    poll, said = Act("poll", polling), BLOCKED.format("this run is autonomous")
    model = ScriptedModel([ASK, call("poll"), finish("decided")])
    envelope = await run_flow(
        "  - {id: one, agent: a}",
        model,
        tools=[*ASK_USER, poll],
        agents=[worker("a", tools=("poll",))],
        autonomous=True,
    )
    assert envelope.output["results"]["one"]["summary"] == "decided"
    assert not [each for each in model.requests if "ask_user" in {t.name for t in each.tools}]
    assert [said in each.messages[-1].content for each in model.requests] == [False, True, True]


def test_every_tool_of_the_table_is_built_in_but_finish_and_that_of_a_plugin() -> None:
    assert set(ALL) - {each.spec.tool_id for each in TOOLS} == {"finish", PLUGIN}
