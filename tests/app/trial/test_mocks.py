"""A mocks file, and the tools and servers that answer as it says."""

from typing import Any

import pytest

from penstock.app.trial.mocks import MockedEgress, Mocks, read_mocks
from penstock.core.call_errors import EgressDenied
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.limits import Limits
from penstock.core.scopes import ScopeKind
from penstock.resources.egress import Egress, EgressCaller, Request
from tests.kit.project import ProjectFolder
from tests.kit.trials import tried

TOOLS = ["read_text_file", "send"]
ENTRY = {"value": 1, "revision": "r1"}


def test_every_part_of_a_mocks_file_is_read() -> None:
    mocks = read_mocks(
        {
            "vault": {"profile": {"k": "s3cret"}, "shared": {"team": {"k": "other"}}},
            "runtime_config": {"url": "u"},
            "state": {"session": {"any": {"a": ENTRY}}, "shared": {"x": {}, "y": {"b": ENTRY}}},
            "state_bindings": [],
            "context": {"who": "me"},
            "tools": {"send": None},
            "fetch": [{"url": "https://example.com"}],
        },
        TOOLS,
    )
    assert mocks == Mocks(
        has_vault=True,
        secrets={"k": "s3cret"},
        shared_secrets={"team": {"k": "other"}},
        runtime_config={"url": "u"},
        state={
            ScopeKind.SESSION: {"any": {"a": ENTRY}},
            ScopeKind.SHARED: {"x": {}, "y": {"b": ENTRY}},
        },
        has_state_bindings=True,
        context={"who": "me"},
        tools={"send": None},
        fetch=[{"url": "https://example.com"}],
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"vaults": {}}, "/vaults: there is no such key. Did you mean 'vault'?"),
        ({"vault": {"sharde": {}}}, "/vault/sharde: there is no such key. Did you mean 'shared'?"),
        ({"tools": {"sent": 1}}, "/tools/sent: there is no such key. Did you mean 'send'?"),
        ({"state": {"global": {}}}, "/state/global: there is no such key."),
        (
            {"state": {"task": {"t": {"k": {**ENTRY, "expires": "x"}}}}},
            "/state/task/t/k/expires: there is no such key.",
        ),
        (
            {"state": {"profile": {"a": {}, "b": {}}}},
            "/state/profile: has 2 scopes; one scope means the local one",
        ),
        (
            {"fetch": [{"url": "https://a.example", "code": 1}]},
            "/fetch/0/code: there is no such key.",
        ),
        (
            {"fetch": [{"url": "http://["}]},
            "/fetch/0/url: is written as https://api.example.com/v1, found 'http://['",
        ),
        (
            {"fetch": [{"url": "api.example.com/v1"}]},
            "/fetch/0/url: is written as https://api.example.com/v1, found 'api.example.com/v1'",
        ),
        ({"fetch": [{}]}, "/fetch/0/url: is required"),
        ({"vault": {"profile": {"k": 5}}}, '/vault/profile/k: 5 is not of type "string"'),
        ({"runtime_config": {"k": None}}, '/runtime_config/k: null is not of type "string"'),
        (
            {"tools": {"send": {"status": "failed", "error": "no"}}},
            '/tools/send/error: "no" is not of type "object"',
        ),
        (
            {"tools": {"send": [1, {"status": "failed", "error": {"code": 5}}]}},
            '/tools/send/1/error/code: 5 is not of type "string"',
        ),
        (
            {"tools": {"send": {"status": "failed", "error": {"mesage": "no"}}}},
            "/tools/send/error/mesage: there is no such key. Did you mean 'message'?",
        ),
        (
            {"state": {"task": {"t": {"k": {**ENTRY, "expires_at": "2030-06-30T23:59:60Z"}}}}},
            (
                "/state/task/t/k/expires_at: is written as 2030-01-31T12:00:00Z, "
                "found '2030-06-30T23:59:60Z'"
            ),
        ),
        ({"context": []}, '/context: [] is not of type "object"'),
        ([], '/: [] is not of type "object"'),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(raw: Any, expected: str) -> None:
    """An unknown key is an error with the nearest name."""
    with pytest.raises(ConfigError) as caught:
        read_mocks(raw, TOOLS)
    assert str(caught.value).startswith(f"The mocks cannot be used: {expected}")


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
    """`tools.{tool_id}` = output, envelope, or list of them: replaces a nested call."""
    envelope = await tried(sending, "use", {}, Mocks(tools={"send": outcome}))
    assert envelope.output == [wire]


async def test_outcomes_of_a_list_are_used_in_order_and_end(sending: ProjectFolder) -> None:
    mocks = Mocks(tools={"send": [1, {"status": "failed", "error": FAILED}]})
    envelope = await tried(sending, "use", {"times": 3}, mocks)
    first, second, third = envelope.output
    assert (first["output"], second["error"]["code"]) == (1, "NO_STOCK")
    assert third["error"]["message"] == (
        'the mocks have 2 outcomes of "send": there is none for call 3'
    )


async def test_grants_and_inputs_are_checked_before_a_mock(project: ProjectFolder) -> None:
    project.tool("use", CALLS)
    project.tool("send", "export const run = () => 1;", direct_call="false")
    envelope = await tried(project, "use", {}, Mocks(tools={"send": 1}))
    assert envelope.output[0]["error"]["code"] == "NOT_PERMITTED"


async def test_a_wrong_input_does_not_reach_a_mock(sending: ProjectFolder) -> None:
    envelope = await tried(sending, "use", {"to": 5}, Mocks(tools={"send": 1}))
    assert envelope.output[0]["status"] == "validation_error"


async def test_the_tool_on_trial_is_real(sending: ProjectFolder) -> None:
    envelope = await tried(sending, "send", {}, Mocks(tools={"send": "mocked"}))
    assert envelope.output == "really"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (Request(url="https://a.example/x"), 200),
        (Request(url="https://a.example/x", method="POST"), 201),
    ],
)
async def test_the_first_matching_answer_is_used(request_: Request, status: int) -> None:
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
async def test_a_url_without_a_path_matches_the_root(mocked: str) -> None:
    egress = MockedEgress([{"url": mocked}], Egress(Limits()))
    assert (await egress.fetch(Request(url="https://a.example/"), ASKER)).status == 200


async def test_a_request_without_a_match_is_real() -> None:
    """No match: the real `fetch` rules."""
    egress = MockedEgress([{"url": "https://a.example/x"}], Egress(Limits()))
    with pytest.raises(EgressDenied):
        await egress.fetch(Request(url="https://a.example/y"), ASKER)
