"""Which tools a model is offered: one function for the model's call and for the list of tools."""

from penstock.agents.agent import Agent
from penstock.core.call import Origin
from penstock.core.profile import Profile
from penstock.models.model import ToolDefinition
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller
from penstock.tools.tool import Tool


def offered(agent: Agent, invoker: Invoker, profile: Profile) -> tuple[Tool, ...]:
    """Return the tools that the agent's model is offered, in the order of the registry."""
    settings = agent.settings
    if not settings.tools_enabled:
        return ()
    names = settings.enabled_tools
    tools = [tool for tool in invoker.registry if _is_named(tool, names)]
    if invoker.rules or settings.tool_permissions:
        caller = caller_for(agent, profile, ())
        tools = [tool for tool in tools if not invoker.rules.hides(tool.spec, caller)]
    return tuple([tool for tool in tools if _may_be_used(tool, profile)])


def _is_named(tool: Tool, names: tuple[str, ...] | None) -> bool:
    return tool.spec.is_offered if names is None else tool.spec.tool_id in names


def _may_be_used(tool: Tool, profile: Profile) -> bool:
    needed = tool.spec.requires_permissions
    return not needed or all(profile.holds(each) for each in needed)


def caller_for(agent: Agent, profile: Profile, offered_ids: tuple[str, ...]) -> Caller:
    """Return the model of an agent as a caller."""
    return Caller(
        origin=Origin.MODEL,
        profile=profile,
        agent=agent.name,
        agent_tools=frozenset(offered_ids),
        permissions=agent.settings.tool_permissions,
        question_ttl_seconds=agent.settings.question_ttl_seconds,
        clip_at=agent.settings.result_max_chars,
    )


def definition(tool: Tool) -> ToolDefinition:
    """Return what a model is told about a tool."""
    spec = tool.spec
    return ToolDefinition(
        name=spec.tool_id, description=spec.description, parameters=spec.input_schema
    )
