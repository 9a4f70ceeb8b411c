"""Tools and servers that answer as a mocks file says."""

from typing import Any

import pytest

from penstock.app.trial.mocked_tools import MockedEgress
from penstock.app.trial.mocks import Mocks
from penstock.core.call_errors import EgressDenied
from penstock.core.envelope import Json
from penstock.core.limits import Limits
from penstock.resources.egress import Egress, EgressCaller, Request
from tests.kit.project import ProjectFolder
from tests.kit.trials import tried

ASKER = EgressCaller(tool_id="t", egress=())
CALLS = """
    export async function run({ times = 1, to = "Ann" }) {
      const all = [];
      for (let n = 0; n < times; n++) {
        all.push(await flo.callTool({ tool_id: "send", input: { to } }));
      }
      return all;
    }
"""
FAILED = {"code": "NO_STOCK", "message": "none left", "retryable": True, "continuable": False}
TIMEOUT = {"code": "TIMEOUT", "message": "late", "retryable": True, "continuable": True}
WAITS = {"code": "TOOL_FAILED", "message": "the mocks say so", "retryable": False}


@pytest.fixture
def sending(project: ProjectFolder) -> ProjectFolder:
    """A project with a tool that calls another one."""
    project.tool("use", CALLS, script_tools="[send]")
    schema = "{type: object, properties: {to: {type: string}}}"
    project.tool("send", "export const run = () => 'really';", input_schema=schema)
    return project


@pytest.mark.parametrize(
    ("outcome", "wire"),
    [
        ({"id": 1}, {"status": "success", "output": {"id": 1}}),
        (None, {"status": "success", "output": None}),
        ({"status": "success", "output": [2]}, {"status": "success", "output": [2]}),
        (
            {"status": "success", "extra": 1},
            {"status": "success", "output": {"status": "success", "extra": 1}},
        ),
        ({"status": "open"}, {"status": "success", "output": {"status": "open"}}),
        ({"status": "failed", "error": FAILED}, {"status": "failed", "error": FAILED}),
        ({"status": "timeout", "error": TIMEOUT}, {"status": "timeout", "error": TIMEOUT}),
        (
            {"status": "suspended", "question_id": "q_1"},
            {
                "status": "suspended",
                "error": {**WAITS, "continuable": True, "details": {"question_ids": ["q_1"]}},
                "question_id": "q_1",
            },
        ),
    ],
)
async def test_an_outcome_is_an_envelope_or_an_output(
    sending: ProjectFolder, outcome: Any, wire: Any
) -> None:
    """`tools.{tool_id}` = output, envelope, or list of them: stands in for a nested call."""
    envelope = await tried(sending, "use", {}, Mocks(tools={"send": outcome}))
    assert envelope.output == [wire]


async def test_a_list_is_used_in_order_and_then_it_is_over(sending: ProjectFolder) -> None:
    mocks = Mocks(tools={"send": [1, {"status": "failed", "error": FAILED}]})
    envelope = await tried(sending, "use", {"times": 3}, mocks)
    first, second, third = envelope.output
    assert (first["output"], second["error"]["code"]) == (1, "NO_STOCK")
    assert third["error"]["message"] == (
        'the mocks have 2 outcomes of "send": there is none for call 3'
    )


async def test_grants_and_inputs_are_checked_before(project: ProjectFolder) -> None:
    project.tool("use", CALLS)
    project.tool("send", "export const run = () => 1;", direct_call="false")
    envelope = await tried(project, "use", {}, Mocks(tools={"send": 1}))
    assert envelope.output[0]["error"]["code"] == "NOT_PERMITTED"


async def test_an_input_that_is_wrong_reaches_no_stand_in(sending: ProjectFolder) -> None:
    envelope = await tried(sending, "use", {"to": 5}, Mocks(tools={"send": 1}))
    assert envelope.output[0]["status"] == "validation_error"


async def test_the_tool_that_is_tried_out_is_real(sending: ProjectFolder) -> None:
    envelope = await tried(sending, "send", {}, Mocks(tools={"send": "mocked"}))
    assert envelope.output == "really"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (Request(url="https://a.example/x"), 200),
        (Request(url="https://a.example/x", method="POST"), 201),
    ],
)
async def test_the_first_answer_that_matches_is_taken(request_: Request, status: int) -> None:
    """First match answers."""
    answers: list[Json] = [
        {"url": "https://a.example/x", "method": "post", "status": 201, "body": {"a": 1}},
        {"url": "https://a.example/x", "headers": {"X-A": "b"}, "body": "text"},
        {"url": "https://a.example/x", "status": 500},
    ]
    answer = await MockedEgress(answers, Egress(Limits())).fetch(request_, ASKER)
    assert answer.status == status
    if status == 200:
        assert (answer.body, answer.headers) == (b"text", {"x-a": "b"})
    else:
        assert (answer.body, answer.headers) == (b'{"a": 1}', {"content-type": "application/json"})


@pytest.mark.parametrize("mocked", ["https://a.example", "https://a.example/"])
async def test_a_host_alone_is_its_root(mocked: str) -> None:
    egress = MockedEgress([{"url": mocked}], Egress(Limits()))
    assert (await egress.fetch(Request(url="https://a.example/"), ASKER)).status == 200


async def test_without_a_match_the_usual_rules_hold() -> None:
    """No match: the real `fetch` rules."""
    egress = MockedEgress([{"url": "https://a.example/x"}], Egress(Limits()))
    with pytest.raises(EgressDenied):
        await egress.fetch(Request(url="https://a.example/y"), ASKER)
