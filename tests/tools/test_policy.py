"""The visibility table, cell by cell."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import ASK_USER, SUBAGENT, Origin
from penstock.core.call_errors import NotPermitted, ToolNotFound
from penstock.core.json_values.schema import Schema
from penstock.core.profile import Profile
from penstock.tools.policy import (
    PLUGIN,
    Action,
    Caller,
    Rule,
    RuleSet,
    SessionGuard,
    find_grant,
    find_refusal,
)
from penstock.tools.skills import Selection
from penstock.tools.spec import ANY_INPUT, ToolSpec
from tests.kit.visibility import CELLS as TABLE_CELLS


def spec(
    tool_id: str,
    *,
    is_global: bool = False,
    direct_call: bool = False,
    script_tools: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> ToolSpec:
    return ToolSpec(
        tool_id=tool_id,
        description="",
        input_schema=ANY_INPUT,
        is_global=is_global,
        direct_call=direct_call,
        script_tools=frozenset(script_tools),
        requires_permissions=frozenset(needs),
    )


DIRECT = spec("t_direct", direct_call=True, script_tools=("t_own",))
TOOLS = {
    each.tool_id: each
    for each in (
        spec("list_available_skills", is_global=True),
        DIRECT,
        spec("t_helper", script_tools=("t_own2",)),
        spec("t_perm", direct_call=True, needs=("p.send",)),
    )
}
SELECTED = Selection(
    skills=("b", "a"),
    tools=frozenset({"read_text_file", "t_listed", "t_req"}),
    inline=frozenset({"t_inline"}),
    script_tools=frozenset({"t_helper", "t_reqh"}),
)
AGENT = frozenset({"search_knowledge"})
MODEL = Caller(origin=Origin.MODEL, selection=SELECTED, agent_tools=AGENT, profile=Profile())
SCRIPT = Caller(
    origin=Origin.SCRIPT, selection=SELECTED, calling_tool="t_listed", profile=Profile()
)
DIRECT_SCRIPT = replace(SCRIPT, calling_tool="t_direct", root=DIRECT)
NONE = Selection()
ORIGINS = {
    "M": MODEL,
    "M0": replace(MODEL, selection=NONE),
    "S": SCRIPT,
    "S2": replace(SCRIPT, calling_tool="t_helper"),
    "C": Caller(origin=Origin.DIRECT, selection=SELECTED, profile=Profile()),
    "D": DIRECT_SCRIPT,
    "D0": replace(DIRECT_SCRIPT, selection=NONE),
    "H": replace(DIRECT_SCRIPT, selection=NONE, calling_tool="t_own"),
}
CELLS = [each for each in TABLE_CELLS if each[0] != "nothing_such"]
REFUSALS = {"nf": ToolNotFound, "np": NotPermitted}


@pytest.mark.parametrize(
    ("tool", "origin", "cell"), CELLS, ids=[f"{tool}-{origin}" for tool, origin, _ in CELLS]
)
def test_every_cell_of_the_visibility_table(tool: str, origin: str, cell: str) -> None:
    tool_id, _, permission = tool.partition(" +")
    caller = ORIGINS[origin]
    if permission:
        caller = replace(caller, profile=Profile(permissions=frozenset({permission})))
    wanted = TOOLS.get(tool_id) or spec(tool_id)
    refusal = find_refusal(wanted, caller)
    assert type(refusal) is REFUSALS.get(cell, type(None))
    if refusal is None:
        assert find_grant(wanted, caller) == cell


@pytest.mark.parametrize(("kind", "who"), [("script", "script of"), ("python", "tool")])
def test_a_refused_script_receives_the_missing_grants(kind: str, who: str) -> None:
    refusal = find_refusal(spec("t_own2"), replace(ORIGINS["H"], calling_kind=kind))
    assert isinstance(refusal, NotPermitted)
    assert str(refusal) == (
        f'{who} "t_own" may not call "t_own2": it is not global, not in "tools", "script_tools" '
        'or "tool_definitions" of the selected skills (none), not direct_call, '
        'not in the script_tools of "t_direct"'
    )
    assert refusal.details == {
        "missing": [
            "global",
            "tools",
            "inline",
            "script_tools",
            "self",
            "direct_call",
            "own_script_tools",
        ]
    }


def test_the_selected_skills_are_named() -> None:
    refusal = find_refusal(spec("t_plain"), SCRIPT)
    assert refusal
    assert re.search(r"selected skills \(b, a\), not direct_call$", str(refusal))
    grants = ["global", "tools", "inline", "script_tools", "direct_call"]
    assert refusal.details == {"missing": grants}


def test_a_missing_permission_is_named() -> None:
    wanted = spec("t_perm", direct_call=True, needs=("p.send", "p.read"))
    refusal = find_refusal(wanted, ORIGINS["C"])
    assert str(refusal) == '"t_perm" needs the permission p.read, p.send'
    assert refusal
    assert refusal.details == {"missing_permissions": ["p.read", "p.send"]}


@pytest.mark.parametrize(
    "profile", [Profile(everything=True), Profile(permissions=frozenset({"admin"}))]
)
def test_a_profile_with_all_permissions_lacks_none(profile: Profile) -> None:
    assert find_refusal(TOOLS["t_perm"], replace(ORIGINS["C"], profile=profile)) is None


@pytest.mark.parametrize("tool_id", [ASK_USER, "search_knowledge"])
@pytest.mark.parametrize("is_autonomous", [False, True])
def test_an_autonomous_caller_is_refused_only_the_tool_that_asks(
    tool_id: str, is_autonomous: bool
) -> None:
    caller = replace(MODEL, agent_tools=AGENT | {ASK_USER}, is_autonomous=is_autonomous)
    refusal = find_refusal(spec(tool_id), caller)
    assert isinstance(refusal, NotPermitted) is (is_autonomous and tool_id == ASK_USER)
    assert bool(caller.silence) is is_autonomous


@pytest.mark.parametrize("tool_id", ["agent_write", SUBAGENT])
@pytest.mark.parametrize("origin", [Origin.MODEL, Origin.SCRIPT])
@pytest.mark.parametrize("is_architect", [False, True])
def test_only_the_architect_writes_agents_and_only_its_scripts_start_them(
    tool_id: str, origin: Origin, is_architect: bool
) -> None:
    guard = SessionGuard(agent="a", is_architect=is_architect)
    caller = replace(MODEL, origin=origin, session=guard, calling_tool="t_listed", root=DIRECT)
    refusal = find_refusal(spec(tool_id, is_global=True, direct_call=True), caller)
    may = is_architect and (tool_id != SUBAGENT or origin is Origin.SCRIPT)
    assert (refusal is None) is may


@pytest.mark.parametrize("origin", [Origin.MODEL, Origin.SCRIPT, Origin.DIRECT])
def test_a_tool_of_a_plugin_is_for_agent_sessions(origin: Origin) -> None:
    plugin = replace(spec("p_look", is_global=True, direct_call=True), kind=PLUGIN)
    in_chat = replace(MODEL, origin=origin, calling_tool="t_listed")
    assert find_refusal(plugin, in_chat) is not None
    in_session = replace(in_chat, session=SessionGuard(agent="a"))
    assert find_refusal(plugin, in_session) is None


ALLOW, ASK, DENY = Action.ALLOW, Action.ASK, Action.DENY
BIG = Schema({"properties": {"amount": {"minimum": 100}}, "required": ["amount"]})


def mail_tool(approval: bool | Mapping[str, Any] = False) -> ToolSpec:  # noqa: FBT002
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
def test_deny_beats_ask_beats_allow_and_the_default_counts_last(
    rules: list[Rule], permission: str | None, default: bool, expected: Action
) -> None:
    """Only where neither rules nor permissions say anything does the tool's default count."""
    assert RuleSet(rules).decide(mail_tool(default), caller(permission), {}) is expected


@pytest.mark.parametrize(("amount", "expected"), [(99, ALLOW), (100, DENY)])
def test_a_rule_with_when_matches_only_fitting_inputs(amount: int, expected: Action) -> None:
    rules = RuleSet([rule(DENY, when=BIG)])
    assert rules.decide(mail_tool(), caller(), {"amount": amount}) is expected


@pytest.mark.parametrize(("amount", "expected"), [(99, ALLOW), (100, ASK)])
def test_a_tool_may_require_approval_for_some_inputs(amount: int, expected: Action) -> None:
    when = {"when": {"properties": {"amount": {"minimum": 100}}}}
    assert RuleSet().decide(mail_tool(when), caller(), {"amount": amount}) is expected


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
    assert RuleSet(rules).hides(mail_tool(), caller(permission)) is hidden


@pytest.mark.parametrize(
    ("rules", "input", "message"),
    [
        ([rule(ALLOW), rule(DENY, "t*")], {}, "[[rules]] 2, tool 't*'"),
        ([rule(DENY, agent="a*")], {}, "[[rules]] 1, tool '*', agent 'a*'"),
        ([rule(DENY, agent="b"), rule(DENY, "t*", agent="assistant")], {}, "[[rules]] 2, tool"),
        ([rule(DENY, when=Schema({"required": ["a"]})), rule(DENY, "t")], {}, "2, tool 't'"),
        ([rule(DENY, when=Schema({"required": ["a"]}))], {"a": 1}, "[[rules]] 1, tool '*', when"),
    ],
)
def test_a_deny_names_its_rule(rules: list[Rule], input: Any, message: str) -> None:
    spec = ToolSpec(tool_id="t", description="T", input_schema={})
    assert message in RuleSet(rules).denial(spec, Caller(origin=Origin.MODEL), input)


def test_a_permission_that_denies_is_named_first() -> None:
    spec = ToolSpec(tool_id="t", description="T", input_schema={})
    caller = Caller(origin=Origin.MODEL, permissions={"t": "deny"})
    said = RuleSet([rule(DENY)]).denial(spec, caller)
    assert said == 'the permissions of the agent "assistant" forbid "t"'


@pytest.mark.parametrize(
    ("permission", "session", "expected"),
    [
        (None, None, ASK),
        ("allow", None, ALLOW),
        (None, SessionGuard(agent="clerk"), ALLOW),
    ],
)
def test_a_tool_that_asks_in_chats_asks_unless_a_rule_decides(
    permission: str | None, session: SessionGuard | None, expected: Action
) -> None:
    asking = replace(mail_tool(), asks_in_chats=True)
    someone = replace(caller(permission), session=session)
    assert RuleSet([]).decide(asking, someone, {}) is expected


def test_a_deny_that_no_rule_explains_is_a_rule_of_the_project() -> None:
    said = RuleSet([rule(ALLOW), rule(DENY, "other")]).denial(mail_tool(), caller())
    assert said == 'a rule of this project forbids "send_email"'
