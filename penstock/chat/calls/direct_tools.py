"""Tools for direct calls by people and programs: which there are, and whether a call is valid."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Origin
from penstock.core.call_errors import NotPermitted, ToolNotFound
from penstock.core.diagnostics import nearest
from penstock.core.json_values.schema import Problem
from penstock.core.profile import Profile
from penstock.tools.invoker import Invoker
from penstock.tools.policy import PLUGIN, SCRIPT, Caller, find_refusal
from penstock.tools.spec import BUILTIN, ToolSpec
from penstock.tools.tool import Tool

DIRECT = Caller(origin=Origin.DIRECT)


class DirectTools:
    """The tools that may be called by `/call`, over HTTP and from the terminal."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    def list_for(self, profile: Profile) -> list[Tool]:
        """Return the tools that a profile may call, sorted by id, without broken ones."""
        caller = replace(DIRECT, profile=profile)
        tools = (each for each in self._invoker.registry if not each.spec.is_broken)
        visible = [each for each in tools if self._is_open(each, caller)]
        return sorted(visible, key=lambda tool: tool.spec.tool_id)

    def get(self, tool_id: str, profile: Profile) -> Tool:
        """Return the tool if this profile may call it. Raises ToolNotFound and NotPermitted."""
        # A tool that only models or scripts may call gets the answer for an unknown id.
        tool, caller = self._invoker.registry.by_id.get(tool_id), replace(DIRECT, profile=profile)
        refusal = find_refusal(tool.spec, caller) if tool else None
        if tool is None or isinstance(refusal, ToolNotFound):
            near = nearest(tool_id, [each.spec.tool_id for each in self.list_for(profile)])
            hint = f'; did you mean "{near}"?' if near else ""
            raise ToolNotFound(f'no direct-call tool "{tool_id}"{hint}')
        if refusal is not None:
            raise refusal
        if self._invoker.rules.hides(tool.spec, caller):
            raise NotPermitted(self._invoker.rules.denial(tool.spec, caller))
        return tool

    def check(self, tool: Tool, input: dict[str, Any], unread: Sequence[Problem] = ()) -> None:
        """Raise InvalidInput with every problem unless the input matches the tool's schema.

        `unread` holds errors in the syntax of the input.
        """
        self._invoker.edition.admission.check_input(tool.spec, input, unread)

    def _is_open(self, tool: Tool, caller: Caller) -> bool:
        return find_refusal(tool.spec, caller) is None and not self._invoker.rules.hides(
            tool.spec, caller
        )


def how_to_allow(spec: ToolSpec) -> str:
    """Return what an author has to do so that a tool allows direct calls, or why it cannot.

    Only for the owner of the project. Over HTTP such a tool is answered like an unknown one.
    """
    if spec.is_broken:
        return "first fix its errors; `penstock check` shows them"
    grants = f"`penstock tools grants {spec.tool_id}` shows who may call it"
    reasons = {
        BUILTIN: f"it is built in; {grants}",
        PLUGIN: "it belongs to a plugin, and only agents of flows may call it",
        SCRIPT: "add `direct_call: true` to its manifest",
    }
    return reasons.get(spec.kind, "give it @tool(direct_call=True)")
