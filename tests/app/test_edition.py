"""A newer edition of a project's files takes the place of an older one, while it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock import tool
from penstock.app.edition import Shelf, look
from penstock.app.opening import Additions, open_project
from penstock.app.project import load_project
from penstock.app.settings import load
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
async def shelf(project: ProjectFolder, *added: Tool) -> AsyncIterator[Shelf]:
    """Open the project with its first edition."""
    settings = load(project.root, cache_dir=str(project.cache), synchronous="NORMAL")
    first = load_project(settings, added)
    async with open_project(settings, first, Additions(tools=added)) as runtime:
        yield Shelf(runtime=runtime, settings=settings, first=first, added=added)


async def test_the_next_call_finds_what_was_read_again(project: ProjectFolder) -> None:
    """D9: a reload swaps the whole bundle."""
    project.tool("say", "export const run = () => 'old';")
    async with shelf(project) as one:
        assert (await one.runtime.call("say", {})).output == "old"
        project.tool("say", "export const run = () => 'new';")
        project.tool("more", "export const run = () => 'more';")
        project.write("s.skill.yaml", skill())
        project.write("a.prompts.yaml", "execution: {preamble: Be brief.}\n")
        project.write("agents/clerk.md", "---\nname: clerk\ndescription: C.\n---\n\nBe one.\n")
        read = one.read()
        one.take(read)
        assert (await one.runtime.call("say", {})).output == "new"
        assert one.runtime.parts.cast.preface is read.preface is not None
        assert (await one.runtime.call("more", {})).output == "more"
        assert one.runtime.parts.skills.find("s")
        assert one.runtime.parts.agents.get("clerk").description == "C."


async def test_what_runs_goes_on_with_the_edition_it_began_with(project: ProjectFolder) -> None:
    """An entry that is running keeps the bundle it began with."""
    entered, may_go = asyncio.Event(), asyncio.Event()

    @tool()
    async def gate() -> None:
        """Wait until the files were changed."""
        entered.set()
        await may_go.wait()

    project.tool("outer", OUTER, script_tools="[gate, inner]")
    project.tool("inner", "export const run = () => 'old';")
    async with shelf(project, gate) as one:
        running = asyncio.create_task(one.runtime.call("outer", {}))
        await entered.wait()
        project.tool("inner", "export const run = () => 'new';")
        one.take(one.read())
        may_go.set()
        assert (await running).output == "old"
        assert (await one.runtime.call("outer", {})).output == "new"


async def test_the_next_entry_of_a_call_that_waited_takes_the_new_one(
    project: ProjectFolder,
) -> None:
    """The next entry takes the new one (§11 L12)."""
    project.tool("asks", ASKS.replace("NOW", "old"))
    async with shelf(project) as one:
        parked = await one.runtime.call("asks", {})
        assert parked.status is Status.SUSPENDED
        assert parked.error
        assert parked.error.details
        project.tool("asks", ASKS.replace("NOW", "new"))
        one.take(one.read())
        await one.runtime.answer(parked.error.details["question_ids"][0], {"text": "x"})
        reply = await one.runtime.wait(parked.error.details["task_id"])
        assert reply
        assert reply.envelope
        assert reply.envelope.output == "new"


async def test_a_tool_that_was_added_by_a_program_stays(project: ProjectFolder) -> None:
    @tool(direct_call=True)
    def stays() -> str:
        """Stay."""
        return "here"

    async with shelf(project, stays) as one:
        one.take(one.read())
        assert (await one.runtime.call("stays", {})).output == "here"


@pytest.mark.slow("looks at the files twice a second")
async def test_changed_files_are_taken_and_mistakes_are_told(project: ProjectFolder) -> None:
    """Wrong manifests are told on stderr and the good ones go on."""
    project.tool("say", "export const run = () => 'old';")
    told: asyncio.Queue[str] = asyncio.Queue()
    async with shelf(project) as one, one.watched(told.put_nowait):
        project.tool("wrong", "import x from 'y';\nexport const run = () => x;")
        project.tool("say", "export const run = () => 'newer';")
        lines = [await asyncio.wait_for(told.get(), 20)]
        while not lines[-1].startswith("Read again"):
            lines.append(await asyncio.wait_for(told.get(), 20))
        assert lines[0].startswith("tools/wrong.mts:1:15: error import-bare")
        assert (await one.runtime.call("say", {})).output == "newer"


@pytest.mark.parametrize("file", ["a.txt", ".pi/flows/agents/a.md"])
def test_a_file_that_changed_is_seen(project: ProjectFolder, file: str) -> None:
    project.write(file, "a")
    before = look(project.root)
    project.write(file, "ab")
    assert look(project.root) != before
