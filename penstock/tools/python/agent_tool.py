"""An agent as a tool of another agent: it gets a task, and its output is the tool's output.

The tool is a frame: it acts only through the calls of its agent, which have paths below it. After a
crash it runs again from its top and continues the agent's dialogue, so nothing is repeated.

A file lists agents by their names (`agents_by_name`); a program lists the agents themselves.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, NotFound
from penstock.core.json_values.json_text import compact
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.options import TOOL_ID
from penstock.tools.python.output_type import OutputType
from penstock.tools.resources import AgentRequest
from penstock.tools.spec import ToolSpec

HOUR_MS = 3_600_000
"""Timeout of a call. The budget of the task bounds what the agent does."""
TASK: Json = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "What to do, with all that the agent needs to know",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


class AgentTool:
    """Runs an agent. Raises ConfigError if its input is a type without fields."""

    def __init__(
        self, agent: Any, spec: ToolSpec, *, input_type: OutputType | None, is_typed: bool
    ) -> None:
        self.agent = agent
        self.spec = spec
        self._input_type = input_type
        """The type of its input; None if it is a task in words."""
        self._is_typed = is_typed
        """Whether it returns the typed output, and not the text of the answer."""

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the output of the agent. Its questions appear where the call is."""
        ask_agent = invocation.edition.resources.callbacks.ask_agent
        if ask_agent is None:
            raise ToolNotConfigured("agents do not run here: use a runtime")
        if self._input_type is None:
            task = input["task"]
        elif problems := self._input_type.problems(input):
            raise invalid(self.spec.tool_id, problems)
        else:
            task = compact(input)
        request = AgentRequest(
            agent=self.agent,
            task=invocation.caller.secrets.text(task),
            path=invocation.call.path,
            caller=invocation.caller,
            is_typed=self._is_typed,
        )
        return await ask_agent(request, invocation.ledger)

    def preview(self, output: Any) -> str | None:
        """Return None: the default line is shown."""
        return None

    def _needs(self, deps: Any, /) -> None:
        """Tell type checkers that it needs the dependencies of its agent."""


def agent_tool(
    agent: Any, *, name: str | None, description: str | None, input: Any, output: bool
) -> AgentTool:
    """Return an agent as a tool.

    Raises ConfigError if `input` is a type without fields, or `name` no id of a tool.
    """
    input_type = None if input is None else OutputType(input)
    if input_type is not None and input_type.is_wrapped:
        raise ConfigError(f"input of the agent {agent.name!r} must be a type with fields")
    if name is not None and not TOOL_ID.fullmatch(str(name)):
        raise ConfigError(
            f"name of the agent {agent.name!r} as a tool must match {TOOL_ID.pattern}; "
            f"found {name!r}"
        )
    text = description or agent.description or f"Have the agent {agent.name} do a task."
    spec = ToolSpec(
        tool_id=name or agent.name,
        description=text,
        input_schema=TASK if input_type is None else input_type.schema,
        effect=Effect.WRITE,
        is_frame=True,
        timeout_ms=HOUR_MS,
        kind="python",
    )
    return AgentTool(agent, spec, input_type=input_type, is_typed=output)


def agents_by_name(
    names: Iterable[str], tools: Container[str], find: Callable[[str], Any]
) -> Iterator[AgentTool]:
    """Yield the agents among the names that an agent file lists as its tools.

    A tool goes before an agent of its name. Agents that do not exist any more are left out.
    """
    for name in names:
        if name in tools:
            continue
        try:
            agent = find(name)
        except NotFound:
            continue
        yield agent.as_tool()
