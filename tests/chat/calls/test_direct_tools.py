"""The tools that people and programs call by hand."""

import pytest

from penstock.chat.calls.direct_tools import DirectTools, how_to_allow
from penstock.core.call_errors import InvalidInput, NotPermitted, ToolNotFound
from penstock.core.ids import ProfileId
from penstock.core.profile import CHAT, LOCAL_PROFILE, Profile
from penstock.testing.runtime import memory_runtime
from penstock.tools.policy import Action, Rule
from tests.kit.tools import Act

CLERK = Profile(profile_id=ProfileId("clerk"), permissions=frozenset({CHAT}))
NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
TOOLS = (
    Act("write", direct_call=True, input_schema=NUMBER),
    Act("hidden"),
    Act("locked", direct_call=True, requires_permissions=frozenset({"root"})),
    Act("denied", direct_call=True),
    Act("look", direct_call=True),
    Act("broken", direct_call=True, is_broken=True),
)
RULES = (Rule(tool="denied", action=Action.DENY),)


async def test_a_profile_sees_its_direct_call_tools_sorted_by_id() -> None:
    async with memory_runtime(tools=TOOLS, rules=RULES) as runtime:
        direct = DirectTools(runtime.parts.tools.invoker)
        assert [each.spec.tool_id for each in direct.list_for(CLERK)] == ["look", "write"]
        everything = [each.spec.tool_id for each in direct.list_for(LOCAL_PROFILE)]
    assert everything == ["locked", "look", "write"]


DENIED = """a rule of this project forbids "denied": [[rules]] 1, tool 'denied'"""


@pytest.mark.parametrize(
    ("tool_id", "error", "message"),
    [
        ("nothing", ToolNotFound, 'no direct-call tool "nothing"'),
        ("writ", ToolNotFound, 'no direct-call tool "writ"; did you mean "write"?'),
        ("denie", ToolNotFound, 'no direct-call tool "denie"'),
        ("brokn", ToolNotFound, 'no direct-call tool "brokn"'),
        ("hidden", ToolNotFound, 'no direct-call tool "hidden"'),
        ("locked", NotPermitted, '"locked" needs the permission root'),
        ("denied", NotPermitted, DENIED),
    ],
)
async def test_a_tool_that_a_profile_may_not_call_is_refused(
    tool_id: str, error: type[Exception], message: str
) -> None:
    async with memory_runtime(tools=TOOLS, rules=RULES) as runtime:
        with pytest.raises(error) as refused:
            DirectTools(runtime.parts.tools.invoker).get(tool_id, CLERK)
    assert str(refused.value) == message


async def test_an_input_is_checked_before_the_call() -> None:
    async with memory_runtime(tools=TOOLS) as runtime:
        direct = DirectTools(runtime.parts.tools.invoker)
        tool = direct.get("write", CLERK)
        direct.check(tool, {"n": 1})
        with pytest.raises(InvalidInput, match='input of "write" is not valid: /n: '):
            direct.check(tool, {"n": "x"})


async def test_a_broken_tool_is_not_offered_and_a_call_reaches_it() -> None:
    """D10: "models and `/call` are not offered it, a call that reaches it answers"."""
    async with memory_runtime(tools=TOOLS) as runtime:
        direct = DirectTools(runtime.parts.tools.invoker)
        assert "broken" not in [each.spec.tool_id for each in direct.list_for(CLERK)]
        assert direct.get("broken", CLERK).spec.is_broken


HOW = [
    ("python", "give it @tool(direct_call=True)"),
    ("script", "add `direct_call: true` to its manifest"),
    ("builtin", "it is built in; `penstock tools grants look` shows who may call it"),
    ("plugin", "it belongs to a plugin, and only agents of flows may call it"),
]


@pytest.mark.parametrize(("kind", "how"), HOW)
def test_each_kind_of_tool_has_its_way_to_allow_direct_calls(kind: str, how: str) -> None:
    assert how_to_allow(Act("look", kind=kind).spec) == how


def test_a_broken_tool_is_fixed_first() -> None:
    how = how_to_allow(Act("look", kind="script", is_broken=True).spec)
    assert how == "first fix its errors; `penstock check` shows them"
