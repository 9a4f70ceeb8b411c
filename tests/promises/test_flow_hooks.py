"""Hooks of plugins in agent sessions of flows: asked last, closed when they fail."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Ask, Envelope, Hooks, ModelRetry, Refuse
from penstock.app.plugins.api import PluginApi
from penstock.chat.requests import NewRun
from penstock.models.scripted import ScriptedModel, ScriptedReply, call
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder


def watching(deed: Callable[[Any], Any], method: str = "before_call") -> Hooks[Any]:
    """Return a hook whose one method does the deed with its first argument."""

    async def method_of(self: Any, ctx: Any, about: Any, *more: Any) -> Any:
        contexts.append(ctx)
        answer = deed(about)
        return about if answer is None else answer

    contexts: list[Any] = []
    made: Hooks[Any] = type("Watch", (Hooks,), {method: method_of, "contexts": contexts})()
    return made


def failing(about: Any) -> Any:
    raise ValueError("no list")


async def run(
    project: ProjectFolder,
    hooks: Hooks[Any],
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
        api.register_hooks(hooks)
        api.on("flow_agent_error", hear)

    async with project.opened(models=[model], plugins=[plugin], settings=settings) as runtime:
        return await runtime.run_flow(NewRun(command="f", task="t"))


async def test_the_model_sees_a_refused_call_and_the_session_continues(
    project: ProjectFolder,
) -> None:
    """G20: "a plugin guard returns a text": refused with that text."""
    hooks: Any = watching(lambda each: Refuse("not today") if each.tool == "read" else None)
    model = ScriptedModel([call("read", path="notes.md"), finish("done")])
    envelope = await run(project, hooks, model)
    assert envelope.ok
    assert "not today" in str(model.requests[1].messages[-1])
    context = hooks.contexts[0]
    assert (context.agent, context.flow, context.profile.profile_id) == ("scout", "f", "local")
    assert context.task_id == context.session


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
async def test_hooks_are_asked_last(
    project: ProjectFolder, asked: ScriptedReply, message: str
) -> None:
    """§12: "paths → bash → guards of plugins"; §20: they run last."""
    heard: list[str] = []

    hooks = watching(lambda each: heard.append(each.tool))
    project.write(".env", "KEY=1")
    project.write(".penstock/x", "1")
    model = ScriptedModel([asked, finish("done")])
    more = f"{ALL_FILES}, agent_catalog\naccess:\n  write: [src/**]"
    envelope = await run(project, hooks, model, tools=more)
    assert envelope.ok
    assert message in model.requests[1].messages[-1].content
    assert heard == ["finish"]


async def test_hooks_judge_each_call_that_all_else_allows(project: ProjectFolder) -> None:
    """For each tool that a session has."""
    heard: list[str] = []

    def refusing(each: Any) -> Refuse:
        heard.append(each.tool)
        return Refuse(f"{each.tool}: no")

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
    await run(project, watching(refusing), model, tools=ALL_FILES)
    names = ["read", "write", "edit", "grep", "find", "ls", "ask_user", "skill_read", "finish"]
    assert sorted(heard) == sorted(names)
    told = [each.content for each in model.requests[1].messages[-len(names) :]]
    assert all(f"{name}: no" in text for name, text in zip(names, told, strict=True))
    assert not (project.root / "src").exists()


@pytest.mark.parametrize("deed", [failing, lambda _: False, lambda _: Ask("Really?")])
async def test_a_finish_that_a_hook_does_not_let_pass_is_refused(
    project: ProjectFolder, deed: Any
) -> None:
    """A hook may refuse `finish`; it cannot change it, or ask a person about it."""
    model = ScriptedModel([finish("done"), *[ScriptedReply()] * 3])
    envelope = await run(project, watching(deed), model)
    assert not envelope.ok
    assert "NOT_PERMITTED" in str(model.requests[1].messages[-1])


async def test_the_result_of_a_step_can_be_sent_back(project: ProjectFolder) -> None:
    def whole(output: Any) -> None:
        if output["summary"] != "all of it":
            raise ModelRetry("Hand in all of it.")

    class Whole(Hooks):
        async def on_output(self, ctx: Any, output: Any) -> None:
            whole(output)

    hooks = Whole()
    model = ScriptedModel([finish("a part"), finish("all of it")])
    envelope = await run(project, hooks, model)
    assert envelope.ok
    assert "Hand in all of it." in str(model.requests[1].messages[-1])


@pytest.mark.parametrize(
    ("deed", "method", "source"),
    [
        (failing, "before_model", "hook_failed"),
        (lambda _: Refuse("no"), "after_reply", "hook_refused"),
    ],
)
async def test_a_refused_session_fails_its_step_hard(
    project: ProjectFolder, deed: Any, method: str, source: str
) -> None:
    """G20: "raises": step fails hard."""
    errors: list[Mapping[str, Any]] = []
    model = ScriptedModel([finish("done")])
    envelope = await run(project, watching(deed, method), model, hear=errors.append)
    assert envelope.output["status"] == "error"
    (error,) = errors
    assert (error["source"], error["severity"]) == (source, "hard")


async def test_the_briefing_of_an_agent_is_read_as_a_hook_leaves_it(
    project: ProjectFolder,
) -> None:
    hooks = watching(lambda each: replace(each, text="Only this."), "on_input")
    model = ScriptedModel([finish("done")])
    assert (await run(project, hooks, model)).ok
    assert [each.content for each in model.requests[0].messages] == ["Only this."]


class Office(Hooks):
    """Lets runs of one flow start only while the office is open, and corrects their tasks."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.asked: list[tuple[str, str, str]] = []

    async def on_input(self, ctx: Any, message: Any) -> Any:
        self.asked.append((ctx.flow, ctx.agent, message.text))
        if ctx.agent:
            return message
        return replace(message, text="go") if self.is_open else Refuse("The office is closed.")


async def test_a_hook_decides_whether_a_run_starts_and_with_which_task(
    project: ProjectFolder,
) -> None:
    """A rejected run is stored, and its requester reads why."""
    closed, opened = Office(is_open=False), Office(is_open=True)
    envelope = await run(project, closed, ScriptedModel([]))
    assert envelope.error is not None
    assert (envelope.error.code, envelope.error.message) == (
        "HOOK_REFUSED",
        "The office is closed.",
    )
    assert (envelope.output["status"], envelope.output["reason"]) == (
        "rejected",
        "The office is closed.",
    )
    assert closed.asked == [("f", "", "t")]
    envelope = await run(project, opened, ScriptedModel([finish("done")]))
    assert envelope.ok
    assert [each[:2] for each in opened.asked] == [("f", ""), ("f", "scout")]


async def test_a_hook_that_raises_rejects_a_run_by_its_name(project: ProjectFolder) -> None:
    envelope = await run(project, watching(failing, "on_input"), ScriptedModel([]))
    assert envelope.error is not None
    assert envelope.error.code == "HOOK_FAILED"
    assert "the hook 'Watch' failed in on_input: ValueError: no list" in envelope.error.message
    assert envelope.output["status"] == "rejected"
