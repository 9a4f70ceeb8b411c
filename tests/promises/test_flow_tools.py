"""The tools of flows, as the seed promises them: in real chats and in real runs."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.agents.tool_offer import definition
from penstock.app.plugins.api import PluginApi
from penstock.builtins import TOOLS as BUILT_IN
from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.builtins.skills import HANDBOOK_TOOLS as SKILL_READ
from penstock.builtins.skills import with_handbooks
from penstock.builtins.subagent import TOOLS as SUBAGENT
from penstock.chat.requests import NewMessage
from penstock.core.envelope import Envelope, Status
from penstock.core.events.flow_events import Output
from penstock.core.messages import AssistantMessage, ToolMessage, UserMessage
from penstock.core.task import TaskStatus
from penstock.manifest.handbook import find_handbooks
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.architect import SETTINGS, at_work
from tests.kit.asking import ask
from tests.kit.flows import WORKERS, by_task, finish, run_flow, worker
from tests.kit.logs import settled
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act

CREW = [*WORKERS, worker("maker", outputs=(Output(name="topics"), Output(name="count")))]


def is_session(request: ModelRequest) -> bool:
    """Whether an agent session asks, and not the chat."""
    return any(tool.name == "finish" for tool in request.tools)


def chat_and(answers: dict[str, Any], *said: ScriptedReply) -> ScriptedModel:
    """Answer the chat in this order, and each agent by its task."""
    left, agents = list(said), by_task(answers)
    return ScriptedModel(lambda request: agents(request) if is_session(request) else left.pop(0))


async def asked_of(model: ScriptedModel, **more: Any) -> Envelope:
    """Return what the chat's first call came to."""
    given: dict[str, Any] = {"tools": SUBAGENT, "agents": CREW, **more}
    async with memory_runtime(model=model, **given) as runtime:
        reply = await ask(runtime, "Go")
        every = await settled(runtime, reply.session_id)
    return next(each.envelope for each in every if each.tool_id == "subagent")


# ---- what models are offered ----

_STRING, _ARRAY, _YES_NO, _OBJECT = "string", "array", "boolean", "object"
PARAMETERS: list[tuple[str, dict[str, str | None], list[str]]] = [
    (
        "ask_user",
        {
            "question": _STRING,
            "type": None,
            "options": _ARRAY,
            "multiSelect": _YES_NO,
            "allowCustom": _YES_NO,
            "defaultValue": _STRING,
        },
        ["question", "type"],
    ),
    ("skill_read", {"skill": _STRING, "file": _STRING}, ["skill", "file"]),
    ("subagent", {"agent": _STRING, "task": _STRING, "inputs": _OBJECT}, ["agent", "task"]),
    ("agent_catalog", {}, []),
    ("agent_write", {"path": _STRING, "content": _STRING}, ["path", "content"]),
    ("flow_write", {"path": _STRING, "content": _STRING}, ["path", "content"]),
    ("execute_workflow", {"workflowId": _STRING, "input": _OBJECT}, ["workflowId"]),
    ("read", {"path": _STRING, "offset": "integer", "limit": "integer"}, ["path"]),
]
"""By tool: the types of its parameters, and those it needs. `type` of `ask_user` is an enum."""


@pytest.mark.parametrize(("tool_id", "types", "required"), PARAMETERS)
def test_a_model_is_offered_the_parameters_of_the_seed(
    tool_id: str, types: dict[str, str | None], required: list[str]
) -> None:
    """T09, T13, T20, T30, T34: an old name of a parameter is taken, and not offered."""
    (tool,) = (each for each in BUILT_IN if each.spec.tool_id == tool_id)
    offered = definition(tool).parameters
    found = {name: each.get("type") for name, each in offered["properties"].items()}
    assert (found, offered["required"]) == (types, required)
    assert offered["additionalProperties"] is False


# ---- subagent ----


async def test_a_named_agent_works_beside_the_chat_with_a_transcript_of_its_own() -> None:
    """T18: "Run a named agent as a subprocess": its messages are not in the chat's."""
    look = Act("look")
    said = [say("Looking.") + call("look"), finish("seen")]
    model = chat_and(
        {"look around": lambda _: said.pop(0)},
        call("subagent", agent="looker", task="look around"),
        say("It looked."),
    )
    agents = [*CREW, worker("looker", tools=("look",))]
    async with memory_runtime(model=model, tools=[*SUBAGENT, look], agents=agents) as runtime:
        reply = await ask(runtime, "Go")
    assert (reply.content, look.runs) == ("It looked.", [{}])
    chat = [each for each in model.requests if not is_session(each)]
    inner = [each for each in model.requests if is_session(each)]
    turn = [UserMessage, AssistantMessage, ToolMessage]
    assert [type(message) for message in chat[-1].messages] == turn
    assert [type(message) for message in inner[-1].messages] == turn
    assert "Go" not in inner[0].messages[0].content


async def test_a_step_and_a_call_with_the_same_task_give_the_same() -> None:
    """T19: "This is the internal tool that powers agent steps in flows"."""
    done = {"think": finish("thought", topics="a, b", files=[{"path": "x", "action": "read"}])}
    text = "  - {id: one, agent: maker, task: think}"
    run = await run_flow(text, ScriptedModel(by_task(done)), agents=CREW)
    model = chat_and(done, call("subagent", agent="maker", task="think"), say("Done."))
    envelope = await asked_of(model)
    assert envelope.output == run.output["results"]["one"]["finish"]


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("scuot", 'there is no agent "scuot"; did you mean "scout"?'),
        ("assistant", 'there is no agent "assistant"; there are flow-decision, judge'),
    ],
)
async def test_an_agent_that_is_not_in_the_catalog_is_refused(agent: str, message: str) -> None:
    """T20: "Agent name (must be in the catalog)"."""
    model = chat_and({}, call("subagent", agent=agent, task="t"), say("Oh."))
    envelope = await asked_of(model)
    assert envelope.status is Status.VALIDATION_ERROR
    assert envelope.error is not None
    assert message in envelope.error.message


async def test_inputs_reach_the_body_and_unnamed_ones_follow_the_task() -> None:
    """T20: "inputs?: Record<string, string>  // Named inputs (key → value)"."""
    agents = [Agent("reader", instructions="Mind ${{input.tone}}.", profile=worker("x").profile)]
    inputs = {"tone": "${{task}}", "notes": "file.txt"}
    model = chat_and({}, call("subagent", agent="reader", task="a $1", inputs=inputs), say("Ok."))
    envelope = await asked_of(model, agents=agents)
    assert envelope.ok
    request = next(filter(is_session, model.requests))
    assert request.system.endswith("Mind ${{task}}.")
    assert request.messages[0].content == "Task: a $1\n\n## Inputs\n\nnotes:\nfile.txt"


@pytest.mark.parametrize("status", ["complete", "error", "blocked"])
async def test_the_call_returns_the_result_of_the_agent(status: str) -> None:
    """T21: "status, summary, files, and typed outputs"; a `finish` with error is still success."""
    given = {"status": status, "files": [{"path": "a.md", "action": "created"}], "topics": "x"}
    made = {"make": finish("made", **given)}
    envelope = await asked_of(
        chat_and(made, call("subagent", agent="maker", task="make"), say("Done."))
    )
    assert envelope.ok
    assert envelope.output == {"summary": "made", **given}


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (say("Hm."), "TOOL_FAILED", 'agent "scout" did not finish: 3 replies called no tool'),
        (finish(status="odd"), "TOOL_FAILED", "3 calls of finish were not valid"),
    ],
)
async def test_without_a_finish_the_call_fails_with_the_reason(
    answer: ScriptedReply, code: str, message: str
) -> None:
    model = chat_and({"t": answer}, call("subagent", agent="scout", task="t"), say("Oh."))
    envelope = await asked_of(model)
    assert envelope.error is not None
    assert envelope.error.code == code
    assert message in envelope.error.message


async def test_two_agents_at_once_each_finish_in_their_own_way() -> None:
    """T03: "The tool is registered per-session by the guard extension"."""
    both = call("subagent", agent="maker", task="a") + call("subagent", agent="scout", task="b")
    model = chat_and({}, both, say("Both."))
    async with memory_runtime(model=model, tools=SUBAGENT, agents=CREW) as runtime:
        reply = await ask(runtime, "Go")
    assert reply.content == "Both."
    sessions = [each for each in model.requests if is_session(each)]
    schemas = [each.tools[-1].parameters["properties"] for each in sessions]
    assert [("topics" in each) for each in schemas] == [True, False]


async def test_the_questions_of_an_agent_are_asked_in_the_chat() -> None:
    """13.2: "its questions are asked in the chat"."""
    said = [call("ask_user", question="Which?", type="input"), finish("asked")]
    model = chat_and(
        {"ask": lambda _: said.pop(0)}, call("subagent", agent="scout", task="ask"), say("Red.")
    )
    async with memory_runtime(model=model, tools=[*SUBAGENT, *ASK_USER], agents=CREW) as runtime:
        waiting = await ask(runtime, "Go")
        assert waiting.status is TaskStatus.SUSPENDED
        (asked,) = waiting.questions
        assert asked.question.text == "Which?"
        sent = await runtime.requests.send(NewMessage(content="red", session_id=waiting.session_id))
        reply = await runtime.requests.wait(sent.task_id)
    assert reply is not None
    assert reply.content == "Red."
    answered = [each for each in model.requests if is_session(each)][-1]
    assert answered.messages[-1].content == '{"answer":"red"}'


# ---- the prompt of an agent session ----

SKILL = "---\nname: my-backend-docs\nfiles:\n  - api-patterns.md\n---\nAsk for a topic.\n"


async def test_the_index_of_a_handbook_is_in_the_prompt_and_its_topics_are_read_on_demand(
    tmp_path: Path,
) -> None:
    """T17: "The SKILL.md index is automatically injected into the agent's system prompt"."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "api-patterns.md").write_text("Use nouns.")
    place = MemoryStorage()
    place.handbooks = find_handbooks([tmp_path])
    tools = [*SUBAGENT, *with_handbooks(SKILL_READ, place.handbooks)]
    agents = [worker("my-agent", handbooks=("my-backend-docs",))]
    read = call("skill_read", skill="my-backend-docs", file="api-patterns.md")
    said = [read, finish("read")]
    model = chat_and(
        {"t": lambda _: said.pop(0)}, call("subagent", agent="my-agent", task="t"), say("Done.")
    )
    async with memory_runtime(model=model, tools=tools, agents=agents, place=place) as runtime:
        await ask(runtime, "Go")
    first, second = [each for each in model.requests if is_session(each)]
    assert f"\n\n## Skill: my-backend-docs\n\n{SKILL}\n\nYou are my-agent." in first.system
    assert "Use nouns" not in first.system
    assert "Use nouns." in second.messages[-1].content


PAGES = ("agents", "steps")
HANDBOOK = "---\nname: {name}\nfiles: [agents.md]\n---\nOwn.\n"


async def test_a_registered_handbook_is_found_before_the_built_in_one(
    project: ProjectFolder,
) -> None:
    """T15: "Extra skills directories … searched first"; then our own."""
    project.write("agents/assistant.md", "---\nname: assistant\ntools: [skill_read]\n---\nRead.\n")
    read = call("skill_read", skill="flow-authoring", file="agents.md")
    steps_of = call("skill_read", skill="flow-authoring", file="steps.md")

    async def outcomes() -> list[Any]:
        model = ScriptedModel([read + steps_of, say("Done.")])
        async with project.opened(models=[model], settings=SETTINGS) as runtime:
            reply = await ask(runtime, "Go")
            every = await settled(runtime, reply.session_id)
            return sorted((each.envelope for each in every), key=lambda each: not each.ok)

    built_in = await outcomes()
    assert [each.ok for each in built_in] == [True, True]
    project.write("handbooks/x/SKILL.md", HANDBOOK.format(name="flow-authoring"))
    project.write("handbooks/x/agents.md", "Mine.")
    own, unlisted = await outcomes()
    assert own.output == "Mine."
    assert "is not listed in skill" in unlisted.error.message


async def test_a_handbook_of_a_plugin_hides_the_built_in_one(project: ProjectFolder) -> None:
    """T15: "the same name in a registered and the built-in directory: registered wins"."""
    project.write("pack/flow-authoring/SKILL.md", HANDBOOK.format(name="flow-authoring"))
    project.write("pack/flow-authoring/agents.md", "Of the plugin.")
    project.write("agents/a.md", "---\nname: a\ndescription: d\ntools:\n---\nWork.\n")

    def plugin(api: PluginApi) -> None:
        api.register_skills_dir(project.root / "pack")

    read = [call("skill_read", skill="flow-authoring", file=f"{each}.md") for each in PAGES]
    found = await at_work(project, *read, agent="a", plugins=[plugin])
    own, built_in = [envelope for _, envelope in found.outcomes]
    assert own.output == "Of the plugin."
    assert built_in.error is not None
    assert "is not listed in skill" in built_in.error.message


SEED_AGENT = """
---
name: my-agent
skills: my-backend-docs
---
You have access to backend documentation. Use `skill_read` to look up:
- skill: my-backend-docs
- file: (see SKILL.md for available files)
"""


async def test_the_usage_pattern_of_the_seed_works_unchanged(project: ProjectFolder) -> None:
    """T17: "Usage pattern": that file as it is loads, and its session can read the topics."""
    project.write("agents/my-agent.md", SEED_AGENT)
    project.write("handbooks/my-backend-docs/SKILL.md", "files:\n- api-patterns.md\n")
    project.write("handbooks/my-backend-docs/api-patterns.md", "Use nouns.")
    read = call("skill_read", skill="my-backend-docs", file="api-patterns.md")
    found = await at_work(project, read, agent="my-agent")
    assert found.outputs() == ["Use nouns."]
    assert "## Skill: my-backend-docs\n\nfiles:\n- api-patterns.md\n" in found.sessions[0].system


@pytest.mark.parametrize("column", ["flow", "flow-architect"])
async def test_questions_and_handbooks_are_there_in_every_session(
    project: ProjectFolder, column: str
) -> None:
    """T08: "Available in: Main session, all subagent sessions"."""
    project.write("agents/flow.md", "---\nname: flow\ndescription: d\ntools:\n---\nWork.\n")
    found = await at_work(project, agent=column)
    assert {"ask_user", "skill_read"} <= set(found.offered)
