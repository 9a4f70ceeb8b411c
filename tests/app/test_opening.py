"""A project opened as a runtime: its storage, additions of the program, and errors."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.app.opening import folder_of
from penstock.app.settings import load
from penstock.core.errors import ConfigError, DeclarationError, NameTaken
from penstock.core.events.events import TaskEnded
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.program.opening import open as open_runtime
from penstock.testing.runtime import memory_runtime
from penstock.tools.shell import ShellSettings
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act

NORMAL = {"synchronous": "NORMAL"}


async def test_messages_are_there_when_the_project_is_opened_again(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello."), say("Again.")])
    async with open_runtime(
        tmp_path, agents=[Agent("assistant", model=model)], settings=NORMAL
    ) as runtime:
        first = await runtime.chat("Hi")
    async with open_runtime(
        tmp_path, agents=[Agent("assistant", model=model)], settings=NORMAL
    ) as runtime:
        second = await runtime.chat("And?", session=first.session)
        records = await runtime.parts.storage.log.read(LogId(first.session))
    assert [first.content, second.content] == ["Hello.", "Again."]
    assert [each.content for each in (r.event for r in records) if isinstance(each, TaskEnded)] == [
        "Hello.",
        "Again.",
    ]
    assert len(model.requests[-1].messages) == 3


async def test_tools_agents_and_models_of_the_program_are_added(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.md").write_text("---\nname: clerk\n---\nYou are a clerk.\n")
    act = Act("stamp")
    model = ScriptedModel([call("stamp"), say("Stamped.")])
    settings = NORMAL | {"models": {"default": "scripted"}}
    async with open_runtime(tmp_path, tools=[act], models=[model], settings=settings) as runtime:
        reply = await runtime.chat("Stamp it", agent="clerk")
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Stamped.")
    assert len(act.runs) == 1


async def test_a_wrong_folder_and_a_wrong_setting_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist: name a folder"):
        async with open_runtime(tmp_path / "nowhere"):
            pass
    with pytest.raises(ConfigError, match="synchronos is not a setting"):
        async with open_runtime(tmp_path, settings={"synchronos": "NORMAL"}):
            pass


async def test_an_unknown_default_model_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model 'offlin'\. Did you mean 'offline'\?"):
        async with open_runtime(tmp_path, settings=NORMAL | {"models": {"default": "offlin"}}):
            pass


async def test_two_runtimes_can_share_a_database_file(tmp_path: Path) -> None:
    """Two servers on one file are allowed: leases decide who works on a conversation."""
    model = ScriptedModel([say("one"), say("two")])
    agent = Agent("assistant", model=model)
    async with (
        open_runtime(tmp_path, agents=[agent], settings=NORMAL) as first,
        open_runtime(tmp_path, agents=[agent], settings=NORMAL) as second,
    ):
        started = await first.chat("Hi")
        went_on = await second.chat("And?", session=started.session)
    assert [started.content, went_on.content] == ["one", "two"]


@pytest.mark.parametrize("is_strict", [False, True])
async def test_an_error_prevents_the_start_with_strict_settings(
    project: ProjectFolder, is_strict: bool
) -> None:
    """`tools.strict`: "any error diagnostic stops the start"."""
    project.tool("broken", "enum A {}")
    project.write("tools/SKILL.yaml", "a: warning alone stops nothing")
    project.write("penstock.toml", f"[tools]\nstrict = {str(is_strict).lower()}\n")
    if not is_strict:
        async with project.opened():
            return
    with pytest.raises(DeclarationError) as refused:
        async with project.opened():
            pass
    codes = {each.code for each in refused.value.diagnostics}
    assert codes == {"ts-not-erasable", "entrypoint-missing"}


@pytest.mark.parametrize(("lines", "code"), [("", None), ("permissions = []", "NOT_PERMITTED"),
                                             ("permissions = ['p.send']", None)])  # fmt: skip
async def test_local_work_has_the_permissions_of_the_settings(
    project: ProjectFolder, lines: str, code: str | None
) -> None:
    project.tool("send", "export const run = () => 1;", requires_permissions="[p.send]")
    project.write("penstock.toml", f"[local]\n{lines}\n")
    async with project.opened() as runtime:
        error = (await runtime.call("send", {})).error
    assert (error and error.code) == code


IN_USE = (".penstock", ".penstock/secret.key", ".penstock/blobs", ".penstock/penstock.db")


@pytest.mark.parametrize(
    ("chosen", "private"),
    [
        ({}, {*IN_USE}),
        ({"data_dir": "var/lib"}, {f"var/lib{each[9:]}" for each in IN_USE}),
        ({"data_dir": "."}, {each[10:] for each in IN_USE[1:]}),
        ({"data_dir": "/elsewhere"}, set()),
        ({"blobs": "kept", "database_url": "sqlite:///my.db"}, {*IN_USE[:2], "kept", "my.db"}),
        ({"blobs": "s3://bucket/x", "database_url": "postgresql://x/y"}, {*IN_USE[:2]}),
    ],
)
def test_data_folders_are_hidden_from_agents(
    tmp_path: Path, chosen: dict[str, Any], private: set[str]
) -> None:
    folder = folder_of(load(tmp_path, **chosen))
    beside = {"-wal", "-shm"}
    assert {each for each in folder.private if each[-4:] not in beside} == private
    assert folder.root == tmp_path


def test_the_settings_decide_whether_shell_commands_run(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[flows]\nshell = true\n")
    shell = folder_of(load(tmp_path, limits={"shell_commands": 3, "shell_memory_mb": 50})).shell
    assert shell.slots is not None
    assert shell.slots.most == 3
    assert replace(shell, slots=None) == ShellSettings(is_on=True, memory_mb=50)


CLERK = "---\nname: clerk\n---\nYou are a clerk.\n"


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        (Agent("clerk"), r"agents= takes a list, such as agents=\[clerk\]; found <agent 'clerk'>"),
        ("clerk", "agents= takes a list"),
        (3, "agents= takes a list"),
        (["clerk"], "agents= takes Agent objects, found 'clerk'; agents of files need not be"),
    ],
)
async def test_what_is_no_list_of_agents_is_refused(
    tmp_path: Path, agents: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with open_runtime(tmp_path, agents=agents):
            pass
    with pytest.raises(ConfigError, match=message):
        async with memory_runtime(agents=agents):
            pass


async def test_two_agents_of_one_name_are_refused_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.md").write_text(CLERK, encoding="utf-8")
    one, two = Agent("teller"), Agent("teller")
    here = rf"{Path(__file__)}:\d+"
    with pytest.raises(
        NameTaken, match=rf"two agents named 'teller', at {here} and {here}: conver"
    ):
        async with open_runtime(tmp_path, agents=[one, two], settings=NORMAL):
            pass
    at_both = rf"two agents 'clerk', at agents/clerk.md and {here}: conversations find their agent"
    with pytest.raises(NameTaken, match=at_both):
        async with open_runtime(tmp_path, agents=[Agent("clerk")], settings=NORMAL):
            pass
    async with open_runtime(tmp_path, agents=[one, one], settings=NORMAL) as runtime:
        with pytest.raises(NameTaken, match=at_both):
            await runtime.chat("Hi", agent=Agent("clerk"))
        with pytest.raises(NameTaken, match="'teller', at"):
            await runtime.chat("Hi", agent=two)
        model = ScriptedModel([say("Replaced.")])
        runtime.put_agent(clerk := Agent("clerk", model=model))
        assert (await runtime.chat("Hi", agent=clerk)).content == "Replaced."


async def test_an_agent_of_a_file_with_an_output_takes_the_place_of_that_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "agents").mkdir()
    file = tmp_path / "agents" / "clerk.md"
    file.write_text(CLERK, encoding="utf-8")
    typed = Agent.from_file(file, output=int)
    hidden = Agent("assistant", model=ScriptedModel([say("Mine.")]))
    async with open_runtime(tmp_path, agents=[typed, hidden], settings=NORMAL) as runtime:
        assert runtime.parts.chat.agents.get("clerk") is typed
        assert (await runtime.chat("Hi")).content == "Mine."
    file.write_text(CLERK + "Be brief.\n", encoding="utf-8")
    with pytest.raises(NameTaken, match=r"'clerk', at agents/clerk.md and .*agents/clerk.md"):
        async with open_runtime(tmp_path, agents=[typed], settings=NORMAL):
            pass
