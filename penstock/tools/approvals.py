"""Whether a call may run as it is: the rules, and where they say so a person."""

from typing import Any

from penstock.core.call_errors import NotPermitted, Rejected
from penstock.core.ids import QuestionId
from penstock.core.question import Question, QuestionKind, QuestionStatus
from penstock.core.text import cut
from penstock.core.world import World
from penstock.engine.suspend import ask
from penstock.tools.active_call import ActiveCall
from penstock.tools.invocation import NestedCalls
from penstock.tools.resources import ProjectFolder
from penstock.tools.rules import Action, Rules
from penstock.tools.tool import Tool


class Approvals:
    """Lets calls pass, refuses them, or asks a person."""

    def __init__(self, rules: Rules, world: World, folder: ProjectFolder | None = None) -> None:
        self._rules = rules
        self._folder = folder
        self._clock = world.clock
        self._limits = world.limits
        self._new_id = world.new_id

    async def agreed(
        self, tool: Tool, active_call: ActiveCall, nest: NestedCalls | None
    ) -> dict[str, Any]:
        """Return the input that a person agreed to, where one has to; what was asked counts."""
        call = active_call.call
        action = self._decide(tool, active_call, call.input)
        if not active_call.ledger.is_asked(call.path):
            if action is Action.ALLOW:
                return call.input
            self._look(tool, active_call)
        answered = await ask(active_call.ledger, self._question(tool, active_call, nest))
        answer = answered.answer
        if answered.status is QuestionStatus.CANCELLED:
            raise Rejected(f'"{call.tool_id}" was not approved: not answered in time')
        if answer.get("decision") != "approve":
            note = f": {answer['note']}" if answer.get("note") else ""
            raise Rejected(f'a person rejected this call of "{call.tool_id}"{note}')
        edited: dict[str, Any] | None = answer.get("input")
        if edited is None:
            return call.input
        self._decide(tool, active_call, edited)
        return edited

    def _look(self, tool: Tool, active_call: ActiveCall) -> None:
        """Refuse what no approval would let pass: nobody is asked about it."""
        look, folder = tool.spec.look, self._folder
        if look is not None and folder is not None:
            look(active_call.call.input, folder.files(active_call.caller.access), folder.shell)

    def _decide(self, tool: Tool, active_call: ActiveCall, input: dict[str, Any]) -> Action:
        action = self._rules.decide(tool.spec, active_call.caller, input)
        if action is Action.DENY:
            raise NotPermitted(self._rules.denial(tool.spec, active_call.caller, input))
        return action

    def _question(self, tool: Tool, active_call: ActiveCall, nest: NestedCalls | None) -> Question:
        call, spec = active_call.call, tool.spec
        return Question(
            question_id=QuestionId(self._new_id("q")),
            kind=QuestionKind.APPROVAL,
            text=f'Run "{spec.tool_id}"? {cut(spec.description, self._limits.preview_chars)}',
            path=call.path,
            call_id=nest.call_id if nest else call.call_id,
            tool_id=spec.tool_id,
            input=active_call.caller.secrets.json(call.input),
            input_schema=spec.input_schema,
            expires_at=active_call.caller.expiry(self._clock.now()),
        )
