"""Allow, ask and deny: what a project's rules and an agent's permissions say about a call."""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.json_values.schema import Schema
from penstock.tools.access.policy import Caller
from penstock.tools.spec import ToolSpec


class Action(StrEnum):
    """What a rule decides; the later in this list wins over the earlier."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


STRENGTH = (Action.ALLOW, Action.ASK, Action.DENY)


class Rule(Struct, frozen=True, kw_only=True):
    """One `[[rules]]` entry: which calls it is about, and what it says of them."""

    tool: str
    """A glob over tool ids."""
    action: Action
    agent: str = "*"
    labels: frozenset[str] = frozenset()
    """The tool has one of these."""
    when: Schema | None = None
    """The input matches."""

    def __str__(self) -> str:
        """Return what it is about, as penstock.toml has it."""
        agent = "" if self.agent == "*" else f", agent {self.agent!r}"
        labels = f", labels {sorted(self.labels)}" if self.labels else ""
        return f"tool {self.tool!r}{agent}{labels}{', when' if self.when is not None else ''}"

    def is_about(self, spec: ToolSpec, caller: Caller) -> bool:
        """Whether the rule speaks of this tool and this agent, whatever the input."""
        if self.labels and not self.labels.intersection(spec.labels):
            return False
        return fnmatchcase(spec.tool_id, self.tool) and fnmatchcase(caller.agent, self.agent)


class Rules:
    """All rules of a project."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._whens: dict[str, Schema] = {}

    def __len__(self) -> int:
        """Return how many rules there are."""
        return len(self._rules)

    def decide(self, spec: ToolSpec, caller: Caller, input: Json) -> Action:
        """Return what happens to a call: of all that fits, deny beats ask beats allow.

        Only where neither a rule nor a permission says anything does the tool's own default count.
        """
        if not self._rules and not caller.permissions:
            return self._default(spec, caller, input)
        said = [rule.action for rule in self._about(spec, caller) if _fits(rule.when, input)]
        if own := caller.permissions.get(spec.tool_id):
            said.append(Action(own))
        if said:
            return max(said, key=STRENGTH.index)
        return self._default(spec, caller, input)

    def hides(self, spec: ToolSpec, caller: Caller) -> bool:
        """Whether the tool is not even offered: denied whatever the input."""
        if not self._rules and not caller.permissions:
            return False
        if caller.permissions.get(spec.tool_id) == Action.DENY:
            return True
        about = self._about(spec, caller)
        return any(rule.action is Action.DENY and rule.when is None for rule in about)

    def denial(self, spec: ToolSpec, caller: Caller, input: Json | None = None) -> str:
        """Return what forbids a tool, or a call of it, in words: a permission or a rule."""
        if caller.permissions.get(spec.tool_id) == Action.DENY:
            return f'the permissions of the agent "{caller.agent}" forbid "{spec.tool_id}"'
        for number, rule in enumerate(self._rules, 1):
            fits = rule.when is None or (input is not None and _fits(rule.when, input))
            if rule.action is Action.DENY and fits and rule.is_about(spec, caller):
                return (
                    f'a rule of this project forbids "{spec.tool_id}": [[rules]] {number}, {rule}'
                )
        return f'a rule of this project forbids "{spec.tool_id}"'

    def _about(self, spec: ToolSpec, caller: Caller) -> list[Rule]:
        return [rule for rule in self._rules if rule.is_about(spec, caller)]

    def _default(self, spec: ToolSpec, caller: Caller, input: Json) -> Action:
        wants = spec.requires_approval
        if spec.asks_in_chats and caller.session is None:
            return Action.ASK
        if wants is False:
            return Action.ALLOW
        if wants is True:
            return Action.ASK
        when = self._whens.get(spec.tool_id)
        if when is None:
            when = self._whens[spec.tool_id] = Schema(wants["when"])
        return Action.ASK if _fits(when, input) else Action.ALLOW


def _fits(when: Schema | None, input: Json) -> bool:
    return when is None or not when.problems(input)
