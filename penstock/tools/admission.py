"""The admission of a call: whether it and its input may run, may not, or a person decides.

`ActiveCall` is the state of the call on its way through the invoker, and makes the event of its
outcome; `Admission` fills it, and reserves an admitted call in the budget of its task. It
guarantees that a caller which cannot see a tool gets the answer for an unknown one, and that a
person is asked at most once per call, and only about a call that may run: grants, rules, hooks and
the tool's own check refuse it first. The question has the call's path, so a replay finds
the recorded answer. An input that a person edits goes through the rules again, because a `deny` may
match the edited input only. A call that was asked about waits for its answer even if a rule has
since been changed to `allow`.

Proof: `tests/tools/test_admission.py::
test_a_person_decides_and_the_rules_also_check_an_edited_input`.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Call, Origin
from penstock.core.call_errors import (
    BudgetExceeded,
    CallError,
    Interrupted,
    NotPermitted,
    Rejected,
    ToolNotFound,
)
from penstock.core.clock import Clock
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled
from penstock.core.ids import QuestionId
from penstock.core.json_values.json_text import JSON_DEPTH, compact, is_larger
from penstock.core.json_values.schema import Problem, json_problems
from penstock.core.limits import World
from penstock.core.stored.changes import Revert
from penstock.core.task import Question, QuestionKind, QuestionStatus
from penstock.core.text import cut, size_text
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import ask
from penstock.tools.artifacts import ANY_FORM, PREVIEW_CHARS, LoggedOutcome, OutputForm
from penstock.tools.failures import invalid, without_output
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.invocation import Invocation, NestedCalls
from penstock.tools.policy import SCRIPT, Action, Caller, RuleSet, find_refusal
from penstock.tools.redaction import redacted_files
from penstock.tools.resources import ProjectFolder
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Registry, Tool


class ActiveCall:
    """One call on its way through the invoker."""

    __slots__ = (
        "agreed",
        "began",
        "call",
        "caller",
        "form",
        "invocation",
        "is_cut",
        "is_hidden",
        "ledger",
        "nest",
        "question",
        "refusal",
        "root",
        "spec",
        "tool",
        "trace",
        "worked_ms",
    )

    spec: ToolSpec
    """The tool's specification. Not set before the tool is known."""

    def __init__(self, call: Call, caller: Caller, ledger: Ledger) -> None:
        self.call = call
        self.caller = caller
        self.ledger = ledger
        self.tool: Tool | None = None
        """The tool, once it is known that the caller may see it."""
        self.form = ANY_FORM
        """The form of the tool's outputs, once the tool is known."""
        self.root: ToolSpec | None = None
        """The tool, if this is a direct call: nested calls have its grants."""
        self.refusal: CallError | None = None
        """Why the caller may not call the tool."""
        self.is_hidden = False
        """Whether a rule hides the tool from this caller for every input."""
        self.question: str | None = None
        """The question of a hook, which wants a person to decide."""
        self.trace: str | None = None
        """The traceback of the tool's own error, for operators."""
        self.agreed: dict[str, Any] | None = None
        """The input that the tool runs with."""
        self.nest: NestedCalls | None = None
        """Set once the call is reserved in the budget."""
        self.began: float | None = None
        self.worked_ms = 0
        """How long the attempt worked in earlier entries."""
        self.invocation: Invocation | None = None
        """The newest entry of the call."""
        self.is_cut = False
        """Whether the caller was cancelled while the tool ran, even if the tool ignored that."""

    @property
    def revert(self) -> Revert:
        """The revert of the call, for an undo. Its tool declares one."""
        # A redacted input would take something else back, or nothing.
        has_secret = self.caller.secrets.holds_secret(self.agreed)
        text = None if has_secret else compact(self.agreed)
        return Revert(tool_id=self.spec.revert, input=text, agent=self.caller.agent)

    def settled(self, shown: LoggedOutcome, clock: Clock) -> CallSettled:
        """Return the event of the outcome, as it is shown and logged."""
        call, caller, nested, ran_ms = self.call, self.caller, self.invocation, 0
        if self.began is not None:  # without the time that it waited for a person
            ran_ms = self.worked_ms + round(1000 * (clock.monotonic() - self.began))
        files = (*(nested.files if nested else ()), *shown.files)
        is_undoable = shown.envelope.error is None and self.spec.revert
        return CallSettled(
            tool_id=call.tool_id,
            envelope=shown.envelope,
            call_id=call.call_id,
            context=shown.context,
            is_text=shown.is_text,
            preview=shown.preview,
            ran=self.nest is not None,
            duration_ms=ran_ms,
            artifact_id=shown.artifact_id,
            artifact_blob=shown.artifact_blob,
            total_characters=shown.total_characters,
            files=redacted_files(files, caller.secrets) if files else (),
            clock_ms=clock.now() if caller.calling_kind == SCRIPT else None,
            trace=self.trace,
            revert=self.revert if is_undoable else None,
        )

    def settle_cut(self) -> None:
        """Settle a nested write that its calling tool cancelled, so that it never runs again."""
        if self.spec.is_ambiguous_when_cut and self.call.depth:
            tool_id = self.spec.tool_id
            message = f'"{tool_id}" was cancelled while it ran: it may or may not have happened'
            settled = CallSettled(tool_id=tool_id, envelope=Interrupted(message).envelope())
            self.ledger.settle(self.call.path, settled)

    def failed(self, error: CallError) -> Envelope:
        """Keep the error's trace, and return the envelope that the caller reads."""
        self.trace = error.trace
        return (error if self.tool is None else without_output(error, self.spec)).envelope()


class Admission:
    """Finds the tool of a call, and allows the call, refuses it, or asks a person."""

    def __init__(
        self, registry: Registry, rules: RuleSet, world: World, folder: ProjectFolder | None = None
    ) -> None:
        self._registry = registry
        self._rules = rules
        self._folder = folder
        self._clock = world.clock
        self._limits = world.limits
        self._new_id = world.new_id

    def resolve(self, active_call: ActiveCall) -> Tool:
        """Return the tool. Raises ToolNotFound if it does not exist or the caller cannot see it."""
        call, caller = active_call.call, active_call.caller
        tool = self._registry.by_id.get(call.tool_id)
        if tool is not None:
            # Read once: the spec of a Python tool is computed on first access.
            spec = active_call.spec = tool.spec
            active_call.root = spec if caller.origin is Origin.DIRECT else None
            active_call.refusal = find_refusal(spec, caller)
            active_call.is_hidden = self._rules.hides(spec, caller)
            # A rule that hides a tool also takes it out of the offer, so the grant is missing too.
            # The model then reads which rule denies the call, not that the tool does not exist.
            was_offered = caller.origin is Origin.MODEL and active_call.is_hidden
            if was_offered or not isinstance(active_call.refusal, ToolNotFound):
                active_call.tool = tool
                active_call.form = OutputForm(tool.preview, spec.output_schema)
                return tool
        known = self._registry.by_id
        visible = {tool_id for tool_id, tool in known.items() if self._sees(tool, caller)}
        if caller.session is not None and caller.origin is Origin.MODEL:
            visible = caller.session.nameable(visible)
        missing = self._registry.missing(call.tool_id, visible)
        if call.path in active_call.ledger.task.entered:
            # A write that started, whose toolset no longer returns it. "No such tool" would tell
            # the model that nothing happened.
            raise Interrupted(f'"{call.tool_id}" may or may not have happened. {missing}')
        raise missing

    def permit(self, active_call: ActiveCall) -> None:
        """Raise NotPermitted unless a grant and the rules allow the call."""
        if active_call.is_hidden and active_call.tool is not None:
            raise NotPermitted(self._rules.denial(active_call.spec, active_call.caller))
        if active_call.refusal is not None:
            raise active_call.refusal

    def check_input(
        self, spec: ToolSpec, input: dict[str, Any], unread: Sequence[Problem] = ()
    ) -> None:
        """Raise InvalidInput with every problem unless the input matches the tool's schema.

        `unread` holds problems that the caller found while it parsed the input. No second problem
        is reported at the same path.
        """
        # Depth and size go first: the schema check recurses into the input.
        problems = list(json_problems(input, JSON_DEPTH))
        if not problems and is_larger(input, max_bytes := self._limits.input_bytes):
            problems = [Problem("", f"is over {size_text(max_bytes)}")]
        known_paths = {problem.path for problem in unread}
        if "" not in known_paths:
            problems = problems or spec.compiled_input.problems(input)
        if problems or unread:
            more = [problem for problem in problems if problem.path not in known_paths]
            raise invalid(spec.tool_id, [*unread, *more])

    async def ask_hooks(
        self, active_call: ActiveCall, hooks: TaskHooks, input: dict[str, Any], *, turn: int = 0
    ) -> dict[str, Any]:
        """Return the input of a call as the hooks of its agent leave it. They can only restrict.

        `turn` is 1 for an input that a person edited. Raises NotPermitted if a hook refuses.
        """
        # Hooks are asked last, so that they see only calls that all else allows.
        self._check_bounds(active_call, input)
        call, active_call.question = await hooks.before_call(
            replace(active_call.call, input=input), turn
        )
        active_call.call, active_call.agreed = call, call.input
        if call.input is not input:
            self.check_input(active_call.spec, call.input)
            self._check_bounds(active_call, call.input)
        return call.input

    async def agreed(self, active_call: ActiveCall, nest: NestedCalls | None) -> dict[str, Any]:
        """Return the input to run with: the caller's, or the one a person approved or edited."""
        call = active_call.call
        active_call.agreed = call.input
        action = self._decide(active_call, call.input)
        if call.path not in active_call.ledger.task.waits.asked:
            if action is Action.ALLOW and active_call.question is None:
                return call.input
            self._check_bounds(active_call, call.input)
        answered = await ask(active_call.ledger, self._question(active_call, nest))
        answer = answered.answer
        if answered.status is QuestionStatus.CANCELLED:
            raise Rejected(f'"{call.tool_id}" was not approved: not answered in time')
        if answer.get("decision") != "approve":
            note = f": {answer['note']}" if answer.get("note") else ""
            raise Rejected(f'a person rejected this call of "{call.tool_id}"{note}')
        edited: dict[str, Any] | None = answer.get("input")
        if edited is None:
            return call.input
        active_call.agreed = edited
        return edited

    def check_edited(self, active_call: ActiveCall, input: dict[str, Any]) -> None:
        """Raise InvalidInput or NotPermitted if an input that was edited may not run."""
        self._decide(active_call, input)
        self.check_input(active_call.spec, input)

    def reserve(self, active_call: ActiveCall, nest: NestedCalls | None) -> None:
        """Reserve the call in the budget. Raises BudgetExceeded."""
        max_calls = self._limits.nested_calls
        if nest is None:
            nest = NestedCalls(active_call.root, active_call.call.call_id)
        elif nest.calls > max_calls and active_call.caller.calling_kind != SCRIPT:
            raise BudgetExceeded(f"one call made more than {max_calls} nested calls")
        if active_call.ledger.task.outcome_chars > (max_chars := self._limits.outcome_chars):
            size = f"over {max_chars} characters (limits.outcome_chars)"
            raise BudgetExceeded(f"the outcomes of this task's calls have {size}")
        active_call.ledger.budget.reserve_call()
        active_call.nest = nest

    def _sees(self, tool: Tool, caller: Caller) -> bool:
        spec = tool.spec
        is_open = not spec.is_broken and find_refusal(spec, caller) is None
        return is_open and not self._rules.hides(spec, caller)

    def _check_bounds(self, active_call: ActiveCall, input: dict[str, Any]) -> None:
        """Refuse a call that would fail later, so that no hook and no person is asked about it."""
        check, folder = active_call.spec.check_bounds, self._folder
        if check is not None and folder is not None:
            check(input, folder.files(active_call.caller.access), folder.shell)

    def _decide(self, active_call: ActiveCall, input: dict[str, Any]) -> Action:
        spec = active_call.spec
        action = self._rules.decide(spec, active_call.caller, input)
        if action is Action.DENY:
            raise NotPermitted(self._rules.denial(spec, active_call.caller, input))
        return action

    def _question(self, active_call: ActiveCall, nest: NestedCalls | None) -> Question:
        call, spec = active_call.call, active_call.spec
        return Question(
            question_id=QuestionId(self._new_id("q")),
            kind=QuestionKind.APPROVAL,
            text=active_call.question
            or f'Run "{spec.tool_id}"? {cut(spec.description, PREVIEW_CHARS)}',
            path=call.path,
            call_id=nest.call_id if nest else call.call_id,
            tool_id=spec.tool_id,
            input=active_call.caller.secrets.json(call.input),
            input_schema=spec.input_schema,
            expires_at=active_call.caller.expiry(self._clock.now()),
        )
