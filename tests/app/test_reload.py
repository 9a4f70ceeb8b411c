"""A newer edition of a project's files replaces the older one while the project is open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock import tool
from penstock.app.opening import Additions, open_project
from penstock.app.project import load_project
from penstock.app.reload import READ, ProjectReloader, file_stamps
from penstock.app.settings import load
from penstock.core.diagnostics import Severity
from penstock.core.envelope import Status
from penstock.tools.tool import Tool
from tests.kit.manifests import skill
from tests.kit.project import ProjectFolder

OUTER = """
    export async function run() {
      await flo.callTool({ tool_id: "gate" });
      const { output, error } = await flo.callTool({ tool_id: "inner" });
      return output ?? error?.code;
    }
"""
ASKS = """
    export async function run() {
      await flo.task.waitForUserMessage({ user_message: "Which?" });
      return "NOW";
    }
"""


@asynccontextmanager
async def reloading(project: ProjectFolder, *added: Tool) -> AsyncIterator[ProjectReloader]:
    """Open the project with its first edition."""
    settings = load(project.root, cache_dir=str(project.cache), synchronous="NORMAL")
    first = load_project(settings, added)
    async with open_project(settings, first, Additions(tools=added)) as runtime:
        yield ProjectReloader(runtime=runtime, settings=settings, first=first, added=added)


async def test_the_next_call_uses_the_reloaded_tools(project: ProjectFolder) -> None:
    """D9: a reload swaps the whole bundle."""
    project.tool("say", "export const run = () => 'old';")
    async with reloading(project) as one:
        assert (await one.runtime.call("say", {})).output == "old"
        project.tool("say", "export const run = () => 'new';")
        project.tool("more", "export const run = () => 'more';")
        project.write("s.skill.yaml", skill())
        project.write("a.prompts.yaml", "execution: {preamble: Be brief.}\n")
        project.write("agents/clerk.md", "---\nname: clerk\ndescription: C.\n---\n\nBe one.\n")
        read = one.read()
        one.take(read)
        assert (await one.runtime.call("say", {})).output == "new"
        assert one.runtime.parts.chat.participants.prompt_prefix is read.prompt_prefix is not None
        assert (await one.runtime.call("more", {})).output == "more"
        assert one.runtime.parts.chat.participants.skills.find("s")
        assert one.runtime.parts.chat.agents.get("clerk").description == "C."


async def test_a_running_call_keeps_its_edition(project: ProjectFolder) -> None:
    """A running entry keeps its bundle."""
    entered, may_go = asyncio.Event(), asyncio.Event()

    @tool()
    async def gate() -> None:
        """Wait until the files were changed."""
        entered.set()
        await may_go.wait()

    project.tool("outer", OUTER, script_tools="[gate, inner]")
    project.tool("inner", "export const run = () => 'old';")
    async with reloading(project, gate) as one:
        running = asyncio.create_task(one.runtime.call("outer", {}))
        await entered.wait()
        project.tool("inner", "export const run = () => 'new';")
        one.take(one.read())
        may_go.set()
        assert (await running).output == "old"
        assert (await one.runtime.call("outer", {})).output == "new"


async def test_a_suspended_call_resumes_with_the_new_edition(
    project: ProjectFolder,
) -> None:
    """The next entry takes the new one (§11 L12)."""
    project.tool("asks", ASKS.replace("NOW", "old"))
    async with reloading(project) as one:
        parked = await one.runtime.call("asks", {})
        assert parked.status is Status.SUSPENDED
        assert parked.error
        assert parked.error.details
        project.tool("asks", ASKS.replace("NOW", "new"))
        one.take(one.read())
        await one.runtime.requests.answer(parked.error.details["question_ids"][0], {"text": "x"})
        reply = await one.runtime.requests.wait(parked.error.details["task_id"])
        assert reply
        assert reply.envelope
        assert reply.envelope.output == "new"


CATALOG = """
catalog_id: desk
version: "1"
groups:
  - group_id: mail
    name: Mail
    permissions:
      - {permission_id: mail.send, name: Send mail, description: To anybody.}
"""
GOOD = "execution: {preamble: Be brief.}\n"
RESOLVED = """
execution: {preamble: Be long.}
system_prompt_resolver: {script_file: who.mts, entrypoint: run, timeout_ms: 5000}
"""
BROKEN_PROMPTS = {
    "no YAML": {"a.prompts.yaml": "execution: ["},
    "a wrong key": {"a.prompts.yaml": "preamble: x\n"},
    "a second one": {"b.prompts.yaml": GOOD},
    "a broken script": {"a.prompts.yaml": RESOLVED, "who.mts": "import x from 'y';\n"},
    "no script": {"a.prompts.yaml": RESOLVED},
}


@pytest.mark.parametrize("files", BROKEN_PROMPTS.values(), ids=BROKEN_PROMPTS)
async def test_broken_prompts_keep_the_earlier_prefix(
    project: ProjectFolder, files: dict[str, str]
) -> None:
    """A broken edition is reported and the old one stays: no agent loses its preamble."""
    project.write("a.prompts.yaml", GOOD)
    async with reloading(project) as one:
        before = one.runtime.parts.chat.participants.prompt_prefix
        for name, text in files.items():
            project.write(name, text)
        read = one.read()
        assert [each for each in read.diagnostics if each.severity is Severity.ERROR]
        one.take(read)
        assert one.runtime.parts.chat.participants.prompt_prefix is before is not None
        for name in (*files, "a.prompts.yaml"):
            (project.root / name).unlink(missing_ok=True)
        one.take(one.read())
        assert one.runtime.parts.chat.participants.prompt_prefix is None


async def test_the_catalog_of_permissions_is_reloaded(project: ProjectFolder) -> None:
    """A broken catalog keeps the old one: otherwise every permission would be valid."""
    name, catalog = "all.permissions.yaml", CATALOG
    project.write(name, catalog)
    async with reloading(project) as one:
        database_parts = one.runtime.parts.storage.database_parts
        assert database_parts is not None
        for text in (catalog.replace('"1"', '"2"'), "groups: 7"):
            project.write(name, text)
            one.take(one.read())
            assert database_parts.keys.catalog is not None
            assert database_parts.keys.catalog.version == "2"
        (project.root / name).unlink()
        one.take(one.read())
        assert database_parts.keys.catalog is None


async def test_a_tool_of_the_program_survives_a_reload(project: ProjectFolder) -> None:
    @tool(direct_call=True)
    def stays() -> str:
        """Stay."""
        return "here"

    async with reloading(project, stays) as one:
        one.take(one.read())
        assert (await one.runtime.call("stays", {})).output == "here"


@pytest.mark.slow("looks at the files twice a second")
async def test_changed_files_are_reloaded_and_errors_are_reported(project: ProjectFolder) -> None:
    """Errors in manifests are reported, and the valid manifests are used."""
    project.tool("say", "export const run = () => 'old';")
    reports: asyncio.Queue[str] = asyncio.Queue()
    async with reloading(project) as one, one.watched(reports.put_nowait):
        project.tool("wrong", "import x from 'y';\nexport const run = () => x;")
        project.tool("say", "export const run = () => 'newer';")
        lines = [await asyncio.wait_for(reports.get(), 20)]
        while not lines[-1].startswith("Reloaded"):
            lines.append(await asyncio.wait_for(reports.get(), 20))
        assert lines[0].startswith("tools/wrong.mts:1:15: error import-bare")
        assert lines[-1] == "Reloaded: 2 tools, 0 skills."
        assert (await one.runtime.call("say", {})).output == "newer"


@pytest.mark.parametrize("file", ["a.txt", ".pi/flows/agents/a.md"])
def test_a_changed_file_is_noticed(project: ProjectFolder, file: str) -> None:
    project.write(file, "a")
    before = file_stamps(project.root)
    project.write(file, "ab")
    assert file_stamps(project.root) != before


NAMED = {
    "skills/a/how.txt": True,
    "skills/a/more/table.csv": True,
    "skills/a/penstock.db-wal": False,
    "out/log.txt": False,
}


@pytest.mark.parametrize(("file", "is_watched"), NAMED.items())
def test_resources_of_a_skill_are_watched_with_any_ending(
    project: ProjectFolder, file: str, is_watched: bool
) -> None:
    """Its instructions can be in a file of any name, and its resources are files of all kinds."""
    project.write("skills/a/a.skill.yaml", skill())
    before = file_stamps(project.root, READ)
    project.write(file, "a")
    assert (file_stamps(project.root, READ) != before) is is_watched
