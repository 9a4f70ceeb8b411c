"""Allow, ask and deny."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import Origin
from penstock.core.json_values.schema import Schema
from penstock.tools.access.policy import Caller
from penstock.tools.access.rules import Action, Rule, Rules
from penstock.tools.access.session_guard import SessionGuard
from penstock.tools.spec import ANY_INPUT, ToolSpec

ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
BIG = Schema({"properties": {"amount": {"minimum": 100}}, "required": ["amount"]})


def spec(approval: bool | Mapping[str, Any] = False) -> ToolSpec:  # noqa: FBT002
    return ToolSpec(
        tool_id="send_email",
        description="",
        input_schema=ANY_INPUT,
        requires_approval=approval,
        labels=("mail", "outside"),
    )


def caller(permission: str | None = None, agent: str = "clerk") -> Caller:
    permissions = {"send_email": permission} if permission else {}
    return Caller(origin=Origin.MODEL, agent=agent, permissions=permissions)


def rule(action: Action, tool: str = "*", **more: Any) -> Rule:
    return Rule(tool=tool, action=action, **more)


@pytest.mark.parametrize(
    ("rules", "permission", "default", "expected"),
    [
        ([], None, False, ALLOW),
        ([], None, True, ASK),
        ([rule(ALLOW)], None, True, ALLOW),
        ([rule(ASK)], None, False, ASK),
        ([rule(DENY)], None, False, DENY),
        ([rule(ALLOW), rule(ASK)], None, False, ASK),
        ([rule(DENY), rule(ALLOW)], None, False, DENY),
        ([rule(ASK), rule(DENY), rule(ALLOW)], None, False, DENY),
        ([rule(ALLOW)], "ask", False, ASK),
        ([rule(ASK)], "allow", False, ASK),
        ([rule(ALLOW)], "deny", False, DENY),
        ([], "allow", True, ALLOW),
        ([], "deny", True, DENY),
        ([rule(DENY, "send_*")], None, False, DENY),
        ([rule(DENY, "Send_*")], None, False, ALLOW),
        ([rule(DENY, "send")], None, False, ALLOW),
        ([rule(DENY, agent="cl*")], None, False, DENY),
        ([rule(DENY, agent="boss")], None, False, ALLOW),
        ([rule(DENY, labels=frozenset({"mail", "x"}))], None, False, DENY),
        ([rule(DENY, labels=frozenset({"x"}))], None, False, ALLOW),
    ],
)
def test_deny_beats_ask_beats_allow_and_only_silence_leaves_the_default(
    rules: list[Rule], permission: str | None, default: bool, expected: Action
) -> None:
    """Only where neither rules nor permissions say anything does the tool's default count."""
    assert Rules(rules).decide(spec(default), caller(permission), {}) is expected


@pytest.mark.parametrize(("amount", "expected"), [(99, ALLOW), (100, DENY)])
def test_a_rule_with_when_speaks_of_matching_inputs_alone(amount: int, expected: Action) -> None:
    rules = Rules([rule(DENY, when=BIG)])
    assert rules.decide(spec(), caller(), {"amount": amount}) is expected


@pytest.mark.parametrize(("amount", "expected"), [(99, ALLOW), (100, ASK)])
def test_a_tool_may_ask_for_some_inputs_alone(amount: int, expected: Action) -> None:
    when = {"when": {"properties": {"amount": {"minimum": 100}}}}
    assert Rules().decide(spec(when), caller(), {"amount": amount}) is expected


@pytest.mark.parametrize(
    ("rules", "permission", "hidden"),
    [
        ([], None, False),
        ([rule(DENY)], None, True),
        ([rule(DENY, when=BIG)], None, False),
        ([rule(ASK)], "deny", True),
        ([rule(ASK)], "ask", False),
        ([rule(DENY, "other")], None, False),
    ],
)
def test_a_deny_hides_the_tool_unless_it_depends_on_the_input(
    rules: list[Rule], permission: str | None, hidden: bool
) -> None:
    """A `deny` with `when` refuses only calls that match and keeps the tool offered."""
    assert Rules(rules).hides(spec(), caller(permission)) is hidden


@pytest.mark.parametrize(
    ("rules", "input", "said"),
    [
        ([rule(ALLOW), rule(DENY, "t*")], {}, "[[rules]] 2, tool 't*'"),
        ([rule(DENY, agent="a*")], {}, "[[rules]] 1, tool '*', agent 'a*'"),
        ([rule(DENY, agent="b"), rule(DENY, "t*", agent="assistant")], {}, "[[rules]] 2, tool"),
        ([rule(DENY, when=Schema({"required": ["a"]})), rule(DENY, "t")], {}, "2, tool 't'"),
        ([rule(DENY, when=Schema({"required": ["a"]}))], {"a": 1}, "[[rules]] 1, tool '*', when"),
    ],
)
def test_a_deny_names_its_rule(rules: list[Rule], input: Any, said: str) -> None:
    spec = ToolSpec(tool_id="t", description="T", input_schema={})
    assert said in Rules(rules).denial(spec, Caller(origin=Origin.MODEL), input)


def test_a_permission_that_denies_is_named_first() -> None:
    spec = ToolSpec(tool_id="t", description="T", input_schema={})
    caller = Caller(origin=Origin.MODEL, permissions={"t": "deny"})
    said = Rules([rule(DENY)]).denial(spec, caller)
    assert said == 'the permissions of the agent "assistant" forbid "t"'


@pytest.mark.parametrize(
    ("permission", "session", "expected"),
    [
        (None, None, ASK),
        ("allow", None, ALLOW),
        (None, SessionGuard(agent="clerk"), ALLOW),
    ],
)
def test_what_asks_in_chats_asks_unless_something_else_was_said(
    permission: str | None, session: SessionGuard | None, expected: Action
) -> None:
    asking = replace(spec(), asks_in_chats=True)
    someone = replace(caller(permission), session=session)
    assert Rules([]).decide(asking, someone, {}) is expected


def test_a_deny_that_no_rule_explains_is_a_rule_of_the_project() -> None:
    said = Rules([rule(ALLOW), rule(DENY, "other")]).denial(spec(), caller())
    assert said == 'a rule of this project forbids "send_email"'
