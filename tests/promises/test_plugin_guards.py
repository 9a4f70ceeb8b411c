"""Guards of plugins: one for each agent session, asked last, closed when they fail."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.registered import guards_of
from penstock.chat.requests import NewRun
from penstock.core.call import Call, CallPath
from penstock.core.envelope import Envelope
from penstock.core.ids import TaskId
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from penstock.tools.session_guard import GuardedSession
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder

SESSION = GuardedSession(
    run_id=TaskId("task_1"),
    frame=CallPath("task_1/a/1"),
    agent="scout",
    tools=("read",),
    is_autonomous=False,
)


def a_call() -> Call:
    return Call(path=CallPath("task_1/a/1/0"), tool_id="read", input={})


def failing(call: Call) -> str:
    raise ValueError("no list")


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        (lambda _: None, None),
        (lambda each: f"{each.tool_id} is off today", "read is off today"),
        (failing, "a guard of a plugin failed: ValueError: no list"),
        (lambda _: False, "a guard returns None or a text, found bool"),
    ],
)
def test_a_guard_decides_about_a_call(guard: Any, expected: str | None) -> None:
    """`factory(session) → guard(call) → None or text`."""
    guards = guards_of([lambda _: guard], SESSION)
    assert not isinstance(guards, str)
    assert [each(a_call()) for each in guards] == [expected]


@pytest.mark.parametrize(
    ("factory", "message"),
    [(failing, "could not be made: ValueError: no list"), (lambda _: 7, "7 cannot be called")],
)
def test_why_a_guard_could_not_be_made(factory: Any, message: str) -> None:
    made = guards_of([lambda _: lambda _: None, factory], SESSION)
    assert isinstance(made, str)
    assert message in made


async def run(
    project: ProjectFolder,
    factory: Any,
    model: ScriptedModel,
    *,
    tools: str = "read",
    hear: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> Envelope:
    """Run a flow of one agent; `hear` receives the errors of its steps."""
    head = f"name: scout\ndescription: d\ntools: {tools}\n"
    project.write("agents/scout.md", f"---\n{head}---\nYou look.\n")
    project.write(
        "flows/f.yaml", "name: f\ndescription: d\nsteps:\n  - {id: a, agent: scout, task: go}\n"
    )
    project.write("notes.md", "A note.")
    settings = {"models": {"default": "scripted"}}

    def plugin(api: PluginApi) -> None:
        api.register_guard(factory)
        api.on("flow_agent_error", hear)

    async with project.opened(models=[model], plugins=[plugin], settings=settings) as runtime:
        return await runtime.run_flow(NewRun(command="f", task="t"))


async def test_the_model_sees_a_refused_call_and_the_session_continues(
    project: ProjectFolder,
) -> None:
    """G20: "a plugin guard returns a text": refused with that text."""
    sessions: list[GuardedSession] = []

    def factory(session: GuardedSession) -> Any:
        sessions.append(session)
        return lambda each: "not today" if each.tool_id == "read" else None

    model = ScriptedModel([call("read", path="notes.md"), finish("done")])
    envelope = await run(project, factory, model)
    assert envelope.ok
    assert "not today" in str(model.requests[1].messages[-1])
    [session] = sessions
    assert (session.agent, session.is_autonomous) == ("scout", False)
    assert session.tools == ("read", "finish", "ask_user", "skill_read")


ALL_FILES = "read, write, edit, grep, find, ls, bash"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (call("agent_catalog"), "is not granted"),
        (call("skill_read", skill=1), "/skill"),
        (call("read", path=".env"), "is protected"),
        (call("read", file_path="../x"), "is outside the project"),
        (call("read", path="a", file_path="b"), "give exactly one of path and file_path"),
        (call("read", wrong=1), "wrong"),
        (call("write", path="other.txt", content="x"), "is not writable"),
        (call("edit", path="agents/scout.md", oldText="a", newText="b"), "is protected"),
        (call("grep", pattern="x", path=".env"), "is protected"),
        (call("find", pattern="x", path=".."), "is outside the project"),
        (call("ls", path=".penstock"), "is protected"),
        (call("bash", command="ls"), "bash is switched off"),
        (call("finish", status="odd", summary="s", files=[]), "finish was not accepted"),
    ],
)
async def test_guards_are_asked_last(
    project: ProjectFolder, asked: ScriptedReply, message: str
) -> None:
    """§12: "paths → bash → guards of plugins"; §20: they run last."""
    heard: list[str] = []

    def factory(session: GuardedSession) -> Any:
        return lambda each: heard.append(each.tool_id)

    project.write(".env", "KEY=1")
    project.write(".penstock/x", "1")
    model = ScriptedModel([asked, finish("done")])
    more = f"{ALL_FILES}, agent_catalog\naccess:\n  write: [src/**]"
    envelope = await run(project, factory, model, tools=more)
    assert envelope.ok
    assert message in model.requests[1].messages[-1].content
    assert heard == ["finish"]


async def test_a_guard_judges_each_call_that_all_else_allows(project: ProjectFolder) -> None:
    """§20: `guard(call)`, of `tool_id` and `input`, for each tool that a session has."""
    heard: list[str] = []

    def refusing(each: Call) -> str:
        heard.append(each.tool_id)
        return f"{each.tool_id}: no"

    tried = [
        call("read", path="notes.md"),
        call("write", path="src/a", content="x"),
        call("edit", path="src/a", oldText="a", newText="b"),
        call("grep", pattern="x"),
        call("find", pattern="x"),
        call("ls"),
        call("ask_user", question="Which?", type="input"),
        call("skill_read", skill="flow-authoring", file="steps"),
        finish("done"),
    ]
    model = ScriptedModel([sum(tried[1:], tried[0]), *[ScriptedReply()] * 3])
    await run(project, lambda _: refusing, model, tools=ALL_FILES)
    names = ["read", "write", "edit", "grep", "find", "ls", "ask_user", "skill_read", "finish"]
    assert sorted(heard) == sorted(names)
    told = [each.content for each in model.requests[1].messages[-len(names) :]]
    assert all(f"{name}: no" in text for name, text in zip(names, told, strict=True))
    assert not (project.root / "src").exists()


async def test_a_guard_that_cannot_be_made_fails_the_step_hard(project: ProjectFolder) -> None:
    """G20: "raises while it is made": step fails hard `guard_failed`."""
    told: list[Mapping[str, Any]] = []
    envelope = await run(project, failing, ScriptedModel([]), hear=told.append)
    assert envelope.output["status"] == "error"
    assert "a guard of a plugin could not be made" in envelope.output["reason"]
    (error,) = told
    assert (error["source"], error["severity"]) == ("guard_failed", "hard")


def test_a_guard_is_registered_as_a_function() -> None:
    api = PluginApi()
    api.register_guard(lambda _: lambda _: None)
    assert len(api.guards) == 1
