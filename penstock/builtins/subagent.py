"""`subagent`: one named agent that works for a person's own session."""

from typing import Any

from penstock.core.call import SUBAGENT, Effect
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.envelope import Json
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, fields_of
from penstock.tools.resources import SubagentRequest
from penstock.tools.spec import ToolSpec

HOUR_MS = 3_600_000


class Subagent:
    """Runs an agent of the catalog in a session of its own."""

    spec = ToolSpec(
        tool_id=SUBAGENT,
        description=(
            "Have a named agent do a task on its own. It sees nothing of this conversation. "
            "Returns status (complete, error or blocked), summary, files, and its outputs."
        ),
        input_schema=fields_of(
            {
                "agent": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 64,
                    "description": "The name of the agent",
                },
                "task": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What to do, with all that it needs to know",
                },
                "inputs?": {
                    "type": "object",
                    "additionalProperties": TEXT,
                    "description": "Named texts; file://PATH is replaced by the text of a file",
                },
            }
        ),
        effect=Effect.WRITE,
        is_frame=True,
        timeout_ms=HOUR_MS,
    )

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the agent passed to `finish`. Its questions appear where the call is."""
        run_agent = invocation.edition.resources.callbacks.run_agent
        if run_agent is None:
            raise ToolNotConfigured(
                "no agents can be put to work here: open a project folder, penstock.open(directory)"
            )
        secrets = invocation.caller.secrets
        request = SubagentRequest(
            agent=input["agent"],
            task=secrets.text(input["task"]),
            inputs=secrets.json(input.get("inputs", {})),
            path=invocation.call.path,
            caller=invocation.caller,
        )
        return await run_agent(request, invocation.ledger)

    def preview(self, output: Any) -> str | None:
        """Return the agent's own summary."""
        return f"{output['status']}: {output['summary']}"


TOOLS = (Subagent(),)
