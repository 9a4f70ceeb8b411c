"""`agent_catalog`, `agent_write`, `flow_write`: how the architect designs flows."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.envelope import Json
from penstock.core.events.flow_events import FlowNotified
from penstock.core.json_values.schema import Problem
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import TEXT, Act, BuiltIn, builtin, offered_without
from penstock.tools.resources import NO_PROJECT, Authoring

REDISCOVERED = "flow_rediscovered"
WRITE = "project.write"
IN_TURN = "authoring"
"""Files are written one after another: each is checked against those before it."""
DRY = (
    "penstock then simulates the written flow on every path, without side effects. `dryRun` lists "
    "what was reached; its problems list steps that no path reached and templates that were empty."
)
PATH: Json = {"type": "string", "minLength": 1, "maxLength": 4096}
ANSWERS = (
    "Returns {written, path, diagnostics: [{line, severity, message, suggestion?}], error?}. If "
    "a diagnostic is an error, nothing is written: fix the text and write it again."
)


@builtin(
    "List every agent that a flow may name, with what it is for, its tools, inputs and outputs.",
    {},
    effect=Effect.READ,
)
async def agent_catalog(input: Json, invocation: Invocation) -> Any:
    """Return the entries of all agents, ordered by tier and name."""
    return _authoring(invocation).agents()


def _writing(about: str, where: str) -> Callable[[Act], BuiltIn]:
    """Make a tool of a coroutine that writes one file."""

    def make(act: Act) -> BuiltIn:
        fields = {
            "path?": {**PATH, "description": where},
            "name?": {**PATH, "description": "The same as path"},
            "content": {**TEXT, "description": "The whole text of the file"},
        }
        made = builtin(f"{about} {ANSWERS}", fields, effect=Effect.WRITE, is_transactional=False)(
            act
        )
        spec = replace(
            made.spec,
            idempotent=True,
            exclusive=IN_TURN,
            requires_permissions=frozenset({WRITE}),
        )
        return offered_without("name", instead="path")(replace(made, spec=spec))

    return make


@_writing(
    "Check an agent file, and write it if it has no error.",
    "A name, or agents/NAME.md or .pi/flows/agents/NAME.md",
)
async def agent_write(input: Json, invocation: Invocation) -> Any:
    """Return whether the agent was written, and its findings."""
    path = _place(input, invocation)
    write = partial(_authoring(invocation).write_agent, path, input["content"])
    return await _written(write, invocation)


@_writing(
    "Check a flow, also that every agent it names is in the catalog, and write it if it has no "
    f"error. {DRY}",
    "A name, or a path below flows/ or .pi/flows/flows/ that ends in .yaml or .yml",
)
async def flow_write(input: Json, invocation: Invocation) -> Any:
    """Return whether the flow was written, and its findings."""
    path = _place(input, invocation)
    write = partial(_authoring(invocation).write_flow, path, input["content"])
    return await _written(write, invocation)


def _place(input: Json, invocation: Invocation) -> str:
    paths = [input[name] for name in ("path", "name") if name in input]
    if len(paths) != 1:
        problem = Problem("/path", "give exactly one of path and name")
        raise invalid(invocation.spec.tool_id, [problem])
    path: str = paths[0]
    return path


async def _written(write: Callable[[], Json], invocation: Invocation) -> Json:
    """Write a file, read the project again and notify listeners."""
    threads = invocation.edition.threads
    answer: Json = await threads.run(write)
    if answer["written"]:
        project = await threads.run(_authoring(invocation).rediscover)
        invocation.ledger.add(FlowNotified(kind=REDISCOVERED, body=project), invocation.call.path)
    return answer


def _authoring(invocation: Invocation) -> Authoring:
    authoring = invocation.edition.resources.callbacks.authoring
    if authoring is None:
        raise ToolNotConfigured(NO_PROJECT)
    return authoring


TOOLS = (agent_catalog, agent_write, flow_write)
