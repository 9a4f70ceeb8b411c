"""Tools of plugins: agent sessions that declare them have them."""

from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.registered import registered
from penstock.chat.requests import NewRun
from penstock.core.call import Effect
from penstock.core.errors import ConfigError, NameTaken
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act

FLOW = "name: f\ndescription: d\nsteps:\n  - {id: a, agent: scout, task: go}\n"


class Stamp:
    """A tool as plugins write one."""

    id = "stamp"
    description = "Stamps a text."
    input_schema: dict[str, Any] = {"type": "object", "required": ["text"]}  # noqa: RUF012  so authors write it
    effect = "read"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, input: Any, ctx: Any) -> Any:
        self.seen.append(input)
        return {"stamped": input["text"]}


class SlowStamp(Stamp):
    """The same as a coroutine."""

    async def run(self, input: Any, ctx: Any) -> Any:
        return super().run(input, ctx)


def with_agent(project: ProjectFolder, tools: str) -> None:
    head = f"name: scout\ndescription: d\ntools: {tools}\nenabled_tools: [stamp]\n"
    project.write("agents/scout.md", f"---\n{head}---\nYou look.\n")
    project.write("flows/f.yaml", FLOW)


def plugin_of(tool: Stamp) -> Any:
    def plugin(api: PluginApi) -> None:
        api.register_tool(tool)

    return plugin


async def run(project: ProjectFolder, tool: Stamp, *replies: ScriptedReply) -> ScriptedModel:
    model = ScriptedModel([*replies, finish("done")])
    settings = {"models": {"default": "scripted"}}
    plugins = [plugin_of(tool)]
    async with project.opened(models=[model], plugins=plugins, settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="f", task="t"))
    assert envelope.ok, envelope
    return model


@pytest.mark.parametrize("kind", [Stamp, SlowStamp])
async def test_an_agent_session_calls_a_tool_that_it_declared(
    project: ProjectFolder, kind: type[Stamp]
) -> None:
    """G14: `t_reg` runs. "External packages can add tools to subagent sessions"."""
    tool = kind()
    with_agent(project, "stamp")
    model = await run(project, tool, call("stamp", text="hi"))
    assert tool.seen == [{"text": "hi"}]
    assert model.requests[0].tools[0].name == "stamp"
    assert "stamped" in str(model.requests[1].messages[-1])


async def test_an_agent_that_did_not_declare_the_tool_is_refused(project: ProjectFolder) -> None:
    """G14: `t_reg` by an agent that did not declare it: refused as G5."""
    tool = Stamp()
    with_agent(project, "read")
    model = await run(project, tool, call("stamp", text="hi"))
    assert tool.seen == []
    assert "stamp" not in [each.name for each in model.requests[0].tools]
    assert "is not declared by agent" in str(model.requests[1].messages[-1])


async def test_the_model_receives_wrong_inputs_and_failures(project: ProjectFolder) -> None:
    tool = Stamp()
    with_agent(project, "stamp")
    model = await run(project, tool, call("stamp"))
    assert tool.seen == []
    assert "text" in str(model.requests[1].messages[-1])


async def test_the_tool_is_not_offered_in_a_chat_and_cannot_be_called(
    project: ProjectFolder,
) -> None:
    """T06: the tool is not offered in a chat, whatever settings say; nor is it a direct call."""
    tool = Stamp()
    with_agent(project, "stamp")
    project.write("penstock.toml", 'global_tools = ["stamp"]\n[models]\ndefault = "scripted"\n')
    model = ScriptedModel([call("stamp", text="hi"), say("No."), call("stamp"), say("No.")])
    async with project.opened(models=[model], plugins=[plugin_of(tool)]) as runtime:
        for agent in ("scout", "assistant"):
            await runtime.chat("Stamp", agent=agent)
        refused = await runtime.call("stamp", {"text": "hi"})
    assert tool.seen == []
    assert refused.error is not None
    assert refused.error.code == "TOOL_NOT_FOUND"
    assert all("stamp" not in [t.name for t in each.tools] for each in model.requests)


def test_the_declared_properties_of_a_tool_are_kept() -> None:
    spec = registered(Stamp()).spec
    assert (spec.tool_id, spec.effect, spec.idempotent) == ("stamp", Effect.READ, False)
    assert (spec.is_offered, spec.direct_call, spec.is_global) == (False, False, False)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"id": None}, "it needs 'id', of type str"),
        ({"input_schema": "x"}, "it needs 'input_schema', of type Mapping"),
        ({"run": None}, "it needs run(input, ctx)"),
        ({"id": ""}, "'' is not a tool id"),
        (
            {"effect": "mend"},
            "the effect of tool 'stamp' must be one of none, read, write; found 'mend'",
        ),
        ({"id": "a b"}, "'a b' is not a tool id; expected [A-Za-z_]"),
        (
            {"input_schema": {"type": "nope"}},
            "the input_schema of tool 'stamp' is not a JSON Schema",
        ),
        ({"input_schema": {"$ref": "http://127.0.0.1:1/x"}}, "is not a JSON Schema"),
        ({"input_schema": {"type": "array"}}, 'must have {"type": "object"}'),
    ],
)
def test_an_invalid_tool_is_refused_with_the_reason(members: dict[str, Any], problem: str) -> None:
    tool = Stamp()
    for name, value in members.items():
        setattr(tool, name, value)
    with pytest.raises(ConfigError) as refused:
        registered(tool)
    assert problem in str(refused.value)


async def test_a_python_tool_of_the_project_with_its_name_is_left_out(
    project: ProjectFolder,
) -> None:
    text = (
        "from penstock import tool\n\n\n@tool\ndef stamp() -> str:\n    'Stamp.'\n    return ''\n"
    )
    project.write("tools/stamp.py", text)
    apis: list[PluginApi] = []
    plugins = [apis.append, plugin_of(Stamp())]
    async with project.opened(plugins=plugins) as runtime:
        found_tool = runtime.parts.tools.invoker.registry.by_id.get("stamp")
        assert found_tool is apis[0].tools["stamp"]


async def test_a_refused_tool_does_not_prevent_later_registrations(
    project: ProjectFolder,
) -> None:
    apis: list[PluginApi] = []
    other = SlowStamp()
    other.id = "other"
    async with project.opened(plugins=[apis.append], tools=[Act("stamp")]) as runtime:
        with pytest.raises(NameTaken, match="two tools 'stamp'"):
            apis[0].register_tool(Stamp())
        apis[0].register_tool(other)
        assert "other" in runtime.parts.tools.invoker.registry


async def test_a_tool_registered_while_the_project_is_open_works_at_once(
    project: ProjectFolder,
) -> None:
    apis: list[PluginApi] = []
    async with project.opened(plugins=[apis.append]) as runtime:
        apis[0].register_tool(Stamp())
        assert runtime.parts.tools.invoker.registry.by_id.get("stamp") is apis[0].tools["stamp"]
