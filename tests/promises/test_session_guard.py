"""The guard of an agent session: which calls it refuses, and with which reason."""

from typing import Any

import pytest

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import NotPermitted
from penstock.tools.policy import ALWAYS, AUTHORING, SessionGuard

DECLARED = ("read", "write", "grep", "bash", "t_reg")
FILE_TOOLS = ("read", "write", "edit", "grep", "find", "ls", "bash")


def guard(**more: Any) -> SessionGuard:
    given: dict[str, Any] = {"agent": "g", "declared": DECLARED}
    return SessionGuard(**given | more)


def a_call(tool_id: str) -> Call:
    return Call(CallPath(f"t/1/{tool_id}#x"), tool_id, {})


def refused(session: SessionGuard, tool_id: str) -> str | None:
    error = session.refusal(a_call(tool_id))
    assert error is None or isinstance(error, NotPermitted)
    return None if error is None else str(error)


FLOW, ARCHITECT = guard(), guard(is_architect=True)
AUTONOMOUS = guard(is_autonomous=True)


@pytest.mark.parametrize(
    ("session", "tool_id", "may"),
    [
        *((FLOW, each, True) for each in sorted(ALWAYS)),
        *((ARCHITECT, each, True) for each in sorted(ALWAYS)),
        (AUTONOMOUS, "ask_user", False),
        (guard(is_architect=True, is_autonomous=True), "ask_user", False),
        (guard(is_interactive=False), "ask_user", False),
        (guard(declared=("ask_user",), is_interactive=False), "ask_user", False),
        (FLOW, "subagent", False),
        (ARCHITECT, "subagent", False),
        *((FLOW, each, False) for each in sorted(AUTHORING)),
        *((ARCHITECT, each, True) for each in sorted(AUTHORING)),
        *((FLOW, each, each in DECLARED) for each in FILE_TOOLS),
        *((guard(declared=FILE_TOOLS), each, True) for each in FILE_TOOLS),
        *((guard(declared=()), each, False) for each in FILE_TOOLS),
        (FLOW, "t_reg", True),
        (guard(declared=()), "t_reg", False),
        (guard(declared=(*AUTHORING, "subagent")), "subagent", False),
        *((guard(declared=(*AUTHORING, "subagent")), each, False) for each in sorted(AUTHORING)),
    ],
)
def test_each_cell_of_the_matrix_is_offered_and_runs_or_neither(
    session: SessionGuard, tool_id: str, may: bool
) -> None:
    """T01, T45, T46: agents only call tools they declared."""
    assert (refused(session, tool_id) is None) is may
    assert (tool_id in session.tools) is may


@pytest.mark.parametrize(
    ("session", "tool_id", "expected"),
    [
        (
            FLOW,
            "edit",
            (
                '"edit" is not declared by agent "g". Declared: read, write, grep, bash, t_reg. '
                "Always available: finish, ask_user, skill_read."
            ),
        ),
        (
            guard(declared=()),
            "read",
            (
                '"read" is not declared by agent "g". Declared: none. '
                "Always available: finish, ask_user, skill_read."
            ),
        ),
        (
            guard(declared=(), is_interactive=False),
            "read",
            (
                '"read" is not declared by agent "g". Declared: none. '
                "Always available: finish, skill_read."
            ),
        ),
        (FLOW, "flow_write", '"flow_write" is not granted to agent "g".'),
        (ARCHITECT, "subagent", '"subagent" is not granted to agent "g".'),
        (
            AUTONOMOUS,
            "ask_user",
            "ask_user is blocked: this run is autonomous. Decide on your own and go on.",
        ),
        (
            guard(is_interactive=False),
            "ask_user",
            'ask_user is blocked: agent "g" is not interactive. Decide on your own and go on.',
        ),
    ],
    ids=[
        "G5",
        "G5 none",
        "G5 silent",
        "G18",
        "G18 architect",
        "G16 autonomous",
        "G16 not interactive",
    ],
)
def test_a_refusal_explains_the_limits_of_the_agent(
    session: SessionGuard, tool_id: str, expected: str
) -> None:
    assert refused(session, tool_id) == expected


@pytest.mark.parametrize("tool_id", ["read", "finish", "edit", "subagent", "ask_user"])
def test_no_tool_can_be_called_after_finish(tool_id: str) -> None:
    """T28, G15: once finish is called, the guard blocks any further tool calls."""
    session = guard()
    session.finish()
    assert refused(session, tool_id) == "finish was already called; no further tool calls."


@pytest.mark.parametrize(("declared", "other"), [("find", "glob"), ("glob", "find")])
def test_find_can_be_called_by_its_alias(declared: str, other: str) -> None:
    """13.2: "`find` (alias `glob`)"."""
    session = guard(declared=(declared,))
    assert [refused(session, each) for each in (declared, other)] == [None, None]
    assert (declared in session.tools, other in session.tools) == (True, False)
    assert refused(guard(declared=("read",)), other) is not None


def test_a_hint_names_only_callable_tools_and_finish() -> None:
    """G19: nearest `read`."""
    assert guard().nameable({"read", "edit", "ask_user"}) == {"read", "ask_user", "finish"}
