"""The tools of the project's folder, as a chat and a script meet them in a real project."""

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.chat.message import NewMessage
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder

TOOLS = {"read", "write", "edit", "grep", "find", "ls"}
SCRIPT = """
    export async function run() {
      const found = await flo.callTool({ tool_id: "grep", input: { pattern: "TODO" } });
      return found.output;
    }
"""


async def results(project: ProjectFolder, model: ScriptedModel) -> list[str]:
    """Return what the calls of a model came to, as it reads them."""
    async with project.opened(agents=[Agent(model=model)]) as runtime:
        sent = await runtime.send(NewMessage(content="Go"))
        await runtime.wait(sent.task_id)
    return [str(message) for message in model.requests[-1].messages]


async def test_a_chat_of_a_project_that_names_their_family_has_them(project: ProjectFolder) -> None:
    """`chat.md` §13: families, off until `[tools] builtin` names them; `bash` where it is on."""
    project.write("penstock.toml", '[tools]\nbuiltin = ["files", "shell"]\n')
    project.write("src/a.py", "x = 1\n")
    model = ScriptedModel(
        [
            call("read", path="src/a.py") + call("write", path="src/b.py", content="y = 2\n"),
            call("edit", path="src/a.py", oldText="1", newText="3"),
            call("read", path=".penstock/penstock.db"),
            say("Done"),
        ]
    )
    found = "\n".join(await results(project, model))
    assert TOOLS.issubset(each.name for each in model.requests[0].tools)
    assert "bash" not in [each.name for each in model.requests[0].tools]
    assert (project.root / "src/a.py").read_text() == "x = 3\n"
    assert (project.root / "src/b.py").read_text() == "y = 2\n"
    assert "is protected." in found


async def test_an_agent_that_names_bash_reads_why_it_does_not_run(project: ProjectFolder) -> None:
    model = ScriptedModel([call("bash", command="ls"), say("Done")])
    settings = ChatSettings(enabled_tools=("bash",))
    async with project.opened(agents=[Agent(model=model, settings=settings)]) as runtime:
        await runtime.chat("Go")
    found = str(model.requests[-1].messages)
    assert "bash is switched off in this project (set shell = true under [flows])." in found


async def test_a_project_may_switch_commands_on(project: ProjectFolder) -> None:
    project.write("penstock.toml", '[flows]\nshell = true\n\n[tools]\nbuiltin = ["shell"]\n')
    project.write("notes.txt", "found\n")
    model = ScriptedModel([call("bash", command="cat notes.txt .penstock/*"), say("Done")])
    found = "\n".join(await results(project, model))
    assert '"exitCode":1,"stdout":"found' in found
    assert "No such file or directory" in found


async def test_a_script_may_be_allowed_to_search(project: ProjectFolder) -> None:
    project.write("src/a.py", "x = 1  # TODO\n")
    project.write(".gitignore", "tools/\n")
    project.tool("todos", SCRIPT, script_tools="[grep]")
    async with project.opened() as runtime:
        envelope = await runtime.call("todos", {})
    assert envelope.output == "src/a.py:1: x = 1  # TODO"
