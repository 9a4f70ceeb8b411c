"""The tools of the project folder in a chat and in a script, in a real project."""

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_profile import AgentProfile
from penstock.chat.requests import NewMessage
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.resources.project.access import Access
from tests.kit.asking import ask
from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.programs

TOOLS = {"read", "write", "edit", "grep", "find", "ls"}
UNASKED = "".join(
    f'[[rules]]\ntool = "{each}"\naction = "allow"\n' for each in ("write", "edit", "bash")
)
FAMILIES = '[flows]\nshell = true\n[tools]\nbuiltin = ["files", "shell"]\n'
SCRIPT = """
    export async function run() {
      const found = await flo.callTool({ tool_id: "grep", input: { pattern: "TODO" } });
      return found.output;
    }
"""


async def results(project: ProjectFolder, model: ScriptedModel) -> list[str]:
    """Return what the calls of a model came to, as it reads them."""
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Go"))
        await runtime.requests.wait(sent.task_id)
    return [str(message) for message in model.requests[-1].messages]


async def test_a_chat_is_offered_the_families_that_its_project_names(
    project: ProjectFolder,
) -> None:
    """`chat.md` §13: families, off until `[tools] builtin` names them; `bash` where it is on."""
    project.write("penstock.toml", f'{UNASKED}[tools]\nbuiltin = ["files", "shell"]\n')
    project.write("src/a.py", "x = 1\n")
    model = ScriptedModel(
        [
            call("read", path="src/a.py") + call("write", path="src/b.py", content="y = 2\n"),
            call("edit", path="src/a.py", oldText="1", newText="3"),
            call("read", path=".penstock/penstock.db"),
            say("Done"),
        ]
    )
    result = "\n".join(await results(project, model))
    assert TOOLS.issubset(each.name for each in model.requests[0].tools)
    assert "bash" not in [each.name for each in model.requests[0].tools]
    assert (project.root / "src/a.py").read_text() == "x = 3\n"
    assert (project.root / "src/b.py").read_text() == "y = 2\n"
    assert "is protected." in result


async def test_an_agent_that_names_bash_reads_why_it_is_refused(project: ProjectFolder) -> None:
    model = ScriptedModel([call("bash", command="ls"), say("Done")])
    settings = ChatSettings(enabled_tools=("bash",))
    async with project.opened(
        agents=[Agent("assistant", model=model, settings=settings)]
    ) as runtime:
        await ask(runtime, "Go")
    result = str(model.requests[-1].messages)
    assert "bash is switched off in this project (set shell = true under [flows])." in result


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (call("write", path="new.txt", content="x"), "new.txt"),
        (call("edit", path="notes.txt", oldText="old", newText="new"), "notes.txt"),
        (call("bash", command="echo x > made.txt"), "made.txt"),
    ],
    ids=["write", "edit", "bash"],
)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_chat_asks_a_person_before_a_file_changes(
    project: ProjectFolder, asked: ScriptedReply, path: str, decision: str
) -> None:
    """§12.2: "In a chat … `write`, `edit` and `bash` ask by default"."""
    project.write("penstock.toml", FAMILIES)
    project.write("notes.txt", "old\n")
    model = ScriptedModel([asked, say("Done")])
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        reply = await ask(runtime, "Go")
        before = {each.name for each in project.root.iterdir()}
        assert (project.root / "notes.txt").read_text() == "old\n"
        await runtime.requests.answer(
            reply.questions[0].question.question_id, {"decision": decision}
        )
        await runtime.requests.wait(reply.task_id)
    assert path not in before - {"notes.txt"}
    result = (project.root / path).read_text() if (project.root / path).exists() else "old\n"
    assert (result != "old\n") is (decision == "approve")


async def test_a_change_that_no_approval_allows_is_refused_without_a_question(
    project: ProjectFolder,
) -> None:
    project.write("penstock.toml", FAMILIES)
    made = call("write", path="tools/x.py", content="x") + call("write", path="../x", content="x")
    model = ScriptedModel([made, say("Done")])
    result = "\n".join(await results(project, model))
    assert "is protected." in result
    assert "is outside the project." in result


@pytest.mark.parametrize(("rules", "is_written"), [(UNASKED, False), ("", True)])
async def test_an_authored_file_needs_an_approval_of_that_call(
    project: ProjectFolder, rules: str, *, is_written: bool
) -> None:
    """§12.2: "and never by a chat without a person's approval"; whatever the project's rules."""
    project.write("penstock.toml", rules + FAMILIES)
    writes = AgentProfile(access=Access(write=("tools/**",)))
    model = ScriptedModel([call("write", path="tools/x.py", content="x = 1\n"), say("Done")])
    async with project.opened(agents=[Agent("assistant", model=model, profile=writes)]) as runtime:
        reply = await ask(runtime, "Go")
        for question in reply.questions:
            await runtime.requests.answer(question.question.question_id, {"decision": "approve"})
        await runtime.requests.wait(reply.task_id)
    assert (project.root / "tools/x.py").exists() is is_written


async def test_a_project_can_enable_commands(project: ProjectFolder) -> None:
    project.write("penstock.toml", f"{UNASKED}{FAMILIES}")
    project.write("notes.txt", "found\n")
    model = ScriptedModel([call("bash", command="cat notes.txt .penstock/*"), say("Done")])
    result = "\n".join(await results(project, model))
    assert '"exitCode":1,"stdout":"found' in result
    assert "No such file or directory" in result


async def test_a_script_can_be_allowed_to_search(project: ProjectFolder) -> None:
    project.write("src/a.py", "x = 1  # TODO\n")
    project.write(".gitignore", "tools/\n")
    project.tool("todos", SCRIPT, script_tools="[grep]")
    async with project.opened() as runtime:
        envelope = await runtime.call("todos", {})
    assert envelope.output == "src/a.py:1: x = 1  # TODO"
