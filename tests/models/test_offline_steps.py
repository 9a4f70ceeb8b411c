"""The offline model in a step of a flow: its calls, and its `finish`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.flow_events import Output, ValueType
from penstock.core.ids import CallId
from penstock.core.json_values.schema import Schema
from penstock.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from penstock.flows.agents.finish import AcceptedFinish, FinishContract
from penstock.models.model import ModelRequest, ToolDefinition
from penstock.models.offline import NOTICE, decide
from penstock.models.offline_steps import MADE_UP

NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def tool(name: str, about: str = "", *, own: bool = True, **needs: Any) -> ToolDefinition:
    schema = {"type": "object", "properties": needs, "required": [*needs]}
    return ToolDefinition(name=name, description=about, parameters=schema, is_builtin=not own)


WEATHER = tool("weather", "Tell the weather of a city.", city=TEXT)
ORDER = tool("order_status", "Look an order up.", order=TEXT)
MAIL = tool("send_mail", "Send a mail.", to=TEXT)
WRITE = tool("write", "Write a file.", own=False, path=TEXT, content=TEXT)
ASK = tool("ask_user", "Ask the person one question.", own=False, question=TEXT)
READ = tool(
    "skill_read",
    "Read a reference text that is not in your instructions, such as a page.",
    own=False,
    skill=TEXT,
    file=TEXT,
)


def finish(contract: FinishContract) -> ToolDefinition:
    return ToolDefinition(name="finish", description="", parameters=contract.parameters)


def reply(
    task: str,
    *messages: Message,
    tools: tuple[ToolDefinition, ...] = (),
    contract: FinishContract | None = None,
    closing: bool = False,
) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the calls of a session that was given this task."""
    said = [UserMessage(f"Task: {task}"), *messages]
    offered = (*tools, ASK, READ, finish(contract or FinishContract()))
    answer = decide(ModelRequest(system="", messages=said, tools=offered, closing=closing))
    assert answer.text == ""
    assert NOTICE in answer.thought
    return answer.calls


def handed(task: str, *messages: Message, **more: Any) -> dict[str, Any]:
    """Return the arguments that the session passes to `finish` at once."""
    ((name, arguments),) = reply(task, *messages, **more)
    assert name == "finish"
    contract = more.get("contract") or FinishContract()
    assert isinstance(contract.judge(arguments), AcceptedFinish)
    return arguments


def gave(content: str, name: str = "weather", *, ok: bool = True) -> ToolMessage:
    return ToolMessage(CallId("c"), name, content, ok=ok)


@pytest.mark.parametrize(
    ("task", "tools", "calls"),
    [
        ("weather city=Tokyo", (WEATHER,), [("weather", {"city": "Tokyo"})]),
        ("What is the weather in Tokyo?", (WEATHER,), [("weather", {"city": "Tokyo"})]),
        ("Tokyo", (WEATHER,), [("weather", {"city": "Tokyo"})]),
        (
            "weather city=Tokyo, then order_status order=A1",
            (WEATHER, ORDER),
            [("weather", {"city": "Tokyo"}), ("order_status", {"order": "A1"})],
        ),
        ("weather\n\n## Inputs\n\ncity:\nTokyo", (WEATHER,), [("weather", {"city": "Tokyo"})]),
        ('ask_user question="Which?"', (), [("ask_user", {"question": "Which?"})]),
    ],
)
def test_it_calls_the_tools_that_its_task_names_or_describes(
    task: str, tools: tuple[ToolDefinition, ...], calls: list[tuple[str, dict[str, Any]]]
) -> None:
    assert list(reply(task, tools=tools)) == calls


@pytest.mark.parametrize(
    ("task", "tools"),
    [
        ("A page about Lisbon: read the texts that others wrote", ()),
        ("Ask the person which page to read, with a question", ()),
        ("Write a page about Lisbon", (WRITE,)),
        ("order_status", (ORDER,)),
        ("Ann", (MAIL,)),
        ("Hello", (WEATHER, ORDER)),
        ("A plan.\n\n## Inputs\n\nnote:\nweather city=Rome", (WEATHER, ORDER)),
        ("help", (WEATHER, ORDER)),
        ("What tools do you have?", (WEATHER, ORDER)),
        ("", ()),
    ],
)
def test_it_calls_no_tool_by_accident_and_passes_its_task_on(
    task: str, tools: tuple[ToolDefinition, ...]
) -> None:
    """Tools that every agent is offered are called by their names alone, others with all input."""
    assert handed(task, tools=tools)["summary"].startswith(MADE_UP)


RATE = tool("rate_place", "Rate a place.", place=TEXT, mood={"enum": ["happy", "sad"]})
COUNT = tool("count_to", "Count up.", number={"type": "integer", "maximum": 5})


@pytest.mark.parametrize(
    ("task", "tools", "calls"),
    [
        ("Rate Rome", (RATE,), []),
        ("rate_place Rome mood=angry", (RATE,), []),
        ("rate_place Rome, sad", (RATE,), [("rate_place", {"place": "Rome", "mood": "sad"})]),
        ("count_to number=99", (COUNT,), []),
        ("count_to number=3", (COUNT,), [("count_to", {"number": 3})]),
    ],
)
def test_it_makes_no_call_whose_input_would_be_refused(
    task: str, tools: tuple[ToolDefinition, ...], calls: list[tuple[str, dict[str, Any]]]
) -> None:
    """No person can correct the call, so a step whose only call is refused fails."""
    made = reply(task, tools=tools)
    assert [each for each in made if each[0] != "finish"] == calls


def test_a_made_up_summary_repeats_the_wired_input() -> None:
    first = handed("Find out about Rome.")["summary"]
    assert first == f"{MADE_UP} Find out about Rome."
    assert handed(f"Sum up: {first}")["summary"] == f"{MADE_UP} Sum up: Find out about Rome."


def test_results_of_tools_are_handed_over_without_tool_names() -> None:
    found = gave('{"city": "Tokyo", "sky": "rain", "days": [1, 2]}')
    contract = FinishContract(
        outputs=(Output(name="forecast"), Output(name="sky"), Output(name="days"))
    )
    done = handed("weather city=Tokyo", AssistantMessage(""), found, contract=contract)
    said = "city: Tokyo, sky: rain, days: [1, 2]"
    assert (done["status"], done["summary"], done["forecast"]) == ("complete", said, said)
    assert (done["sky"], done["days"]) == ("rain", said)


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        ('"Hello, Ann!"', "Hello, Ann!"),
        ("Hello, Ann!", "Hello, Ann!"),
        ("3", "3"),
        ("null", "nothing"),
        ("[]", "nothing"),
        ("{}", "nothing"),
        ('[{"a": 1}, 2]', "a: 1, 2"),
        ('"try order_status or `order_status`"', "try the tool or the tool"),
    ],
)
def test_any_outcome_becomes_a_summary(content: str, summary: str) -> None:
    done = handed("weather city=Tokyo", gave(content), tools=(WEATHER, ORDER))
    assert done["summary"] == summary


def test_a_step_all_of_whose_calls_failed_reports_an_error() -> None:
    failed = gave('{"error": "no order in order_status", "code": "NOT_FOUND"}', ok=False)
    done = handed("weather city=Tokyo", failed, tools=(ORDER,))
    assert done["status"] == "error"
    assert done["summary"] == "It failed: no order in the tool (NOT_FOUND)."
    some = handed("weather city=Tokyo", failed, gave("3"), tools=(ORDER,))
    assert (some["status"], some["summary"]) == ("complete", "3")


def test_a_refused_finish_is_not_a_result() -> None:
    refused = gave('{"error": "finish was not accepted"}', "finish", ok=False)
    assert handed("Find out about Rome.", refused)["summary"].endswith("Find out about Rome.")


def test_the_last_turn_of_a_session_is_a_finish() -> None:
    assert handed("weather city=Tokyo", tools=(WEATHER,), closing=True)["status"] == "complete"


OUTPUTS = (
    *(Output(name=each.value, value_type=each) for each in ValueType),
    *(Output(name=each) for each in ("topics", "url", "email", "date")),
    *(
        Output(name=f"p{number}", pattern=each)
        for number, each in enumerate(
            [
                "^(good|bad)$",
                "[0-9]+",
                r"^\d{4}-\d\d-\d\d$",
                "^https://",
                "@",
                "^[A-Z]-\\d+$",
                "^[a-z]+$",
                "^[A-Z]{3}-[0-9]{4}$",
                r"^v[0-9]+\.[0-9]+$",
                "^[a-f0-9]{8}$",
                "^(100|[1-9]?[0-9])%$",
                "^.{500,}$",
                r"^docs/.*\.md$",
                r"^(?=.*[A-Z])(?=.*\d).{8,}$",
                r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
            ]
        )
    ),
)


def test_every_declared_output_has_a_value_that_fits() -> None:
    done = handed("The sights of Lisbon. Be brief.", contract=FinishContract(outputs=OUTPUTS))
    assert done.keys() >= {each.name for each in OUTPUTS}
    assert done["topics"] == "topics of “The sights of Lisbon”"
    assert (done["url"], done["email"]) == ("https://example.com/", "ann@example.com")
    assert (done["number"], done["boolean"], done["array"]) == (1, True, ["example"])


@pytest.mark.parametrize(
    ("branches", "task", "branch"),
    [
        (("quick", "deep"), "How thorough?", "quick"),
        (("quick", "deep"), "Go deep here.", "deep"),
        (("quick", "deep"), "quick or deep?", "quick"),
        (("redo", "good"), "Is it done?", "good"),
        (("redo", "good"), "Say redo if a page is missing.", "good"),
        (("redo", "good"), "A person answered in words of their own:\nredo it all", "redo"),
        (("again", "no"), "Well?", "again"),
        (("Long", "Short"), "Options: Long, Short\n\nChoose.", "Long"),
        (
            ("Long", "Short"),
            "Options: Long, Short\n\nA person answered in words of their own:\nsomething short",
            "Short",
        ),
        (("draft", "done", "loop", "exit"), "x\n\nThis is iteration 1 of 3.", "loop"),
        (("draft", "done", "loop", "exit"), "x\n\nThis is iteration 2 of 3.", "exit"),
        (("draft", "done", "loop", "exit"), "x\n\nThis is iteration 1 of 1.", "exit"),
    ],
)
@pytest.mark.parametrize("is_multiple", [False, True])
def test_a_decision_has_a_branch_that_fits(
    branches: tuple[str, ...], task: str, branch: str, *, is_multiple: bool
) -> None:
    """A multi-select fork wants a list; a loop goes round once, and nothing goes round for ever."""
    contract = FinishContract(branches=branches, is_multiple=is_multiple)
    done = handed(task, contract=contract)
    assert done["branch"] == ([branch] if is_multiple else branch)
    assert done["summary"] == f"I choose {branch}."


def test_a_decision_whose_tool_failed_still_decides() -> None:
    contract = FinishContract(branches=("a", "b"))
    assert handed("Which?", gave("gone", ok=False), contract=contract)["status"] == "complete"


@given(
    task=st.text(max_size=200),
    name=st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,9}\Z"),
    content=st.text(max_size=100),
)
def test_its_result_is_accepted_for_every_task(task: str, name: str, content: str) -> None:
    contract = FinishContract(outputs=(Output(name=f"o_{name}"), Output(name="n", pattern="^a")))
    done = handed(task, gave(content), contract=contract, tools=(ORDER,))
    assert Schema(contract.parameters).problems(done) == []
    assert "order_status" not in done["summary"]


TICKET = tool("final_answer", title=TEXT, severity={"enum": ["low", "high"]})


def typed(said: str, *messages: Message) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the calls of a chat whose agent has a type of output and a tool."""
    request = ModelRequest(
        system="", messages=[UserMessage(said), *messages], tools=(WEATHER, TICKET)
    )
    return decide(request).calls


@pytest.mark.parametrize(
    ("said", "output"),
    [
        ("The printer burns, severity=high", {"title": "printer burns", "severity": "high"}),
        ("The printer burns. It is high.", {"title": "printer burns. It is", "severity": "high"}),
        ("The printer burns", {"title": "printer burns", "severity": "low"}),
        ('{"title": "fire", "severity": "high"}', {"title": "fire", "severity": "high"}),
        ("", {"title": "", "severity": "low"}),
    ],
)
def test_in_a_chat_with_a_typed_output_it_hands_in_what_the_message_says(
    said: str, output: dict[str, Any]
) -> None:
    assert typed(said) == (("final_answer", output),)


def test_in_a_chat_with_a_typed_output_it_calls_the_named_tools_first() -> None:
    said = "weather city=Tokyo"
    assert typed(said) == (("weather", {"city": "Tokyo"}),)
    result = ToolMessage(CallId("c"), "weather", '{"title": "rain"}', ok=True)
    calls = typed(said, AssistantMessage(""), result)
    assert calls == (("final_answer", {"title": "weather city=Tokyo", "severity": "low"}),)
