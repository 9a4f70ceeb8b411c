"""What a script can request of its host with flo and fetch, and the errors that it gets."""

from typing import Any

import pytest

from penstock.sandbox.script import Sandbox
from penstock.testing.bridge import FakeBridge, never
from tests.kit.scripts import value_of


async def asked_by(sandbox: Sandbox, expression: str, answer: Any = None) -> tuple[str, Any]:
    """Return the one host call that an expression makes."""
    seen: list[tuple[str, Any]] = []

    class Recording(FakeBridge):
        def ask(self, name: str, arguments: Any) -> Any:
            seen.append((name, arguments))
            return self._settled(answer)

    await value_of(sandbox, expression, Recording())
    [only] = seen
    return only


@pytest.mark.parametrize(
    ("expression", "name", "arguments"),
    [
        ("flo.callTool({ tool_id: 't' })", "callTool", {"tool_id": "t", "input": {}, "wait": True}),
        (
            "flo.callTool({ tool_id: 't', input: [1], wait: false })",
            "callTool",
            {"tool_id": "t", "input": [1], "wait": False},
        ),
        ("flo.sleep(5)", "sleep", {"ms": 5}),
        ("flo.getRuntimeConfig(' a ')", "getRuntimeConfig", {"key": "a"}),
        (
            "flo.vault.get({ scope: 'profile', key: 'k' })",
            "vault.get",
            {"scope": "profile", "key": "k"},
        ),
        (
            "flo.vault.get({ scope: 'shared', scope_id: 's', key: 'k' })",
            "vault.get",
            {"scope": "shared", "scope_id": "s", "key": "k"},
        ),
        (
            "flo.state.get({ scope_kind: 'task', key: 'k' })",
            "state.get",
            {"scope_kind": "task", "key": "k"},
        ),
        (
            "flo.state.list({ scope_kind: 'task', key_prefix: 'k' })",
            "state.list",
            {"scope_kind": "task", "key_prefix": "k", "limit": 100},
        ),
        (
            (
                "flo.state.put({ scope_kind: 'task', key: 'k', value: null, if_revision: null, "
                "ttl_seconds: 5 })"
            ),
            "state.put",
            {
                "scope_kind": "task",
                "key": "k",
                "value": None,
                "if_revision": None,
                "ttl_seconds": 5,
            },
        ),
        (
            "flo.state.patch({ scope_kind: 'task', key: 'k', patch: { a: null } })",
            "state.patch",
            {"scope_kind": "task", "key": "k", "patch": {"a": None}},
        ),
        (
            "flo.state.append({ scope_kind: 'task', key: 'k', item: 1 })",
            "state.append",
            {"scope_kind": "task", "key": "k", "item": 1},
        ),
        (
            "flo.state.delete({ scope_kind: 'task', key: 'k', if_revision: 'r' })",
            "state.delete",
            {"scope_kind": "task", "key": "k", "if_revision": "r"},
        ),
        ("flo.task.getState({ key: 'k' })", "task.getState", {"key": "k"}),
        ("flo.task.putState({ key: 'k', value: 1 })", "task.putState", {"key": "k", "value": 1}),
        (
            "flo.task.getToolState({ key: 'k', tool_id: 't' })",
            "task.getToolState",
            {"key": "k", "tool_id": "t"},
        ),
        (
            "flo.task.putToolState({ key: 'k', value: 1 })",
            "task.putToolState",
            {"key": "k", "value": 1},
        ),
        ("flo.task.getContext()", "task.getContext", {}),
        ("flo.task.getProfile()", "task.getProfile", {}),
        (
            "flo.task.emitEvent({ event_type: 'e', payload: [1] })",
            "task.emitEvent",
            {"event_type": "e", "level": "info", "payload": [1]},
        ),
        (
            (
                "flo.task.waitForUserMessage({ user_message: 'm', timeout: { seconds: 1, "
                "resume_prompt: 'p' } })"
            ),
            "task.waitForUserMessage",
            {"user_message": "m", "timeout": {"seconds": 1, "resume_prompt": "p"}},
        ),
    ],
)
async def test_flo_asks_the_host(
    sandbox: Sandbox, expression: str, name: str, arguments: Any
) -> None:
    """Each row is one of the table of docs/scripts/bridge.md."""
    assert await asked_by(sandbox, f"(await {expression}) && 1") == (name, arguments)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("flo.callTool('t')", 'flo.callTool takes an object, found "t"'),
        ("flo.callTool({ tool_id: '' })", 'flo.callTool: "tool_id" must not be empty'),
        (
            "flo.callTool({ tool_id: 't', inputs: {} })",
            'flo.callTool takes no "inputs"; did you mean "input"?',
        ),
        (
            "flo.callTool({ tool_id: 't', toolid: 't' })",
            'flo.callTool takes no "toolid"; did you mean "tool_id"?',
        ),
        (
            "flo.callTool({ tool_id: 't', [`a${'b'.repeat(99)}`]: 1 })",
            'bbb…"; it takes tool_id, input, wait',
        ),
        ("flo.callTool({ tool_id: 't', input: 1n })", 'flo.callTool: "input" must be JSON: '),
        ("flo.sleep(-1)", "flo.sleep takes milliseconds from 0 to 3600000, found -1"),
        ("flo.sleep(Infinity)", "flo.sleep takes milliseconds"),
        ("flo.getRuntimeConfig(' ')", "flo.getRuntimeConfig: the key must not be empty"),
        (
            "flo.vault.get({ scope: 'other', key: 'k' })",
            'flo.vault.get: "scope" must be one of profile, shared',
        ),
        (
            "flo.vault.get({ scope: 'shared', key: 'k' })",
            'flo.vault.get: "scope_id" must be a string',
        ),
        (
            "flo.state.get({ scope_kind: 'task', scope_id: 'x', key: 'k' })",
            "flo.state does not accept scope_id; declare it in the manifest",
        ),
        (
            "flo.state.put({ scope_kind: 'task', key: 'k' })",
            'flo.state.put: "value" must be JSON, found undefined',
        ),
        (
            "flo.state.put({ scope_kind: 'task', key: 'k', value: 1, ttl_seconds: 0 })",
            '"ttl_seconds" must be an integer from 1 to 31536000, found 0',
        ),
        (
            "flo.state.patch({ scope_kind: 'task', key: 'k', patch: [] })",
            '"patch" must be an object, found an array',
        ),
        (
            "flo.state.list({ scope_kind: 'task', key_prefix: '', limit: 1001 })",
            '"limit" must be an integer from 1 to 1000',
        ),
        (
            "flo.task.putToolState({ key: 'k', value: 1, tool_id: 't' })",
            "a tool writes only its own state",
        ),
        ("flo.task.emitEvent({ event_type: 'a b' })", '"event_type" must have no spaces'),
        ("flo.task.waitForUserMessage({ user_message: ' ' })", '"user_message" must not be empty'),
        ("flo.fs.readBytes('/etc/passwd')", "must begin with task:// or session://"),
        ("flo.fs.readBytes('task://a/../b')", "is not a path of the workspace"),
        ("(async () => flo.file('http://x'))()", "must begin with task:// or session://"),
        ("flo.file('task://a.txt').text()", "is read only when fetch sends it"),
        ("(async () => new flo.ToolError({ code: 'x', message: 'm' }))()", '"code" must match'),
        ("(async () => new flo.FloError({}))()", "FloError is made by the runtime"),
        (
            "(async () => flo.time.formatUnixTimestamp(1.5, 'YYYY'))()",
            "the seconds must be an integer",
        ),
        ("fetch('/x')", "is not an absolute URL"),
        ("fetch('ftp://x')", "must begin with https:// or http://"),
        ("fetch('https://x', { body: {}, method: 'POST' })", "for JSON use JSON.stringify"),
        (
            "fetch('https://x', { body: new Blob([]), method: 'POST' })",
            "a Blob or File is sent inside a FormData",
        ),
        ("fetch('https://x', { headers: { Host: 'y' } })", 'the header "host" is set by the host'),
        ("fetch('https://x', { headers: { a: 'b\\nc' } })", "has a line break"),
    ],
)
async def test_a_mistake_is_a_type_error_in_words(
    sandbox: Sandbox, expression: str, expected: str
) -> None:
    """Every host function that fails rejects with FloError or, for wrong arguments, TypeError."""
    bridge = FakeBridge()
    caught = f"await {expression}.then(() => ['nothing', ''], (e) => [e.name, e.message])"
    name, message = await value_of(sandbox, caught, bridge)
    assert (name, bridge.asked) == ("TypeError", [])
    assert expected in message


@pytest.mark.parametrize("name", ["browser.run", "browser.exportState"])
async def test_later_functions_are_not_available(sandbox: Sandbox, name: str) -> None:
    caught = f"await flo.{name}({{}}).catch((e) => [e.code, e.message, e instanceof flo.FloError])"
    assert await value_of(sandbox, caught) == [
        "NOT_AVAILABLE",
        f"flo.{name} is not available in this version",
        True,
    ]


async def test_fetch_sends_a_shape_and_shows_an_answer(sandbox: Sandbox) -> None:
    seen: list[Any] = []

    def answer(asked: Any) -> Any:
        seen.append(asked)
        return {
            "status": 201,
            "url": asked["url"],
            "headers": {"a": "b"},
            "body": b'{"x": "\xc3\xa4"}',
        }

    found = await value_of(
        sandbox,
        """await (async () => {
          const form = new FormData();
          form.append("t", "text");
          form.append("f", new Blob(["ab"], { type: "x/y" }), "f.bin");
          form.append("w", flo.file("task://a/b.txt"));
          const more = { timeout_ms: 5, record: false };
          const init = { method: "post", headers: { "X-A": 1 }, body: form, ...more };
          const response = await fetch("https://Ex.com/p#f", init);
          return [response.status, response.ok, response.headers.a, await response.json()];
        })()""",
        FakeBridge({"fetch": answer}),
    )
    assert found == [201, True, "b", {"x": "ä"}]
    assert seen == [
        {
            "url": "https://ex.com/p",
            "method": "POST",
            "headers": [["x-a", "1"]],
            "body": {
                "kind": "form",
                "parts": [
                    {"name": "t", "text": "text"},
                    {"name": "f", "filename": "f.bin", "type": "x/y", "attachment": 0},
                    {"name": "w", "filename": "b.txt", "type": "", "path": "task://a/b.txt"},
                ],
            },
            "redirect": "follow",
            "record": False,
            "timeout_ms": 5,
            "attachments": [b"ab"],
        }
    ]


async def test_an_aborted_fetch_rejects_and_is_cancelled(sandbox: Sandbox) -> None:
    """An abort rejects with an `Error` named `AbortError`."""
    found = await value_of(
        sandbox,
        """await fetch("https://x", { signal: AbortSignal.timeout(5) })
             .catch((e) => [e.name, e instanceof Error])""",
        FakeBridge({"fetch": never}),
    )
    assert found == ["TimeoutError", True]


async def test_a_file_of_the_workspace_is_returned_as_bytes(sandbox: Sandbox) -> None:
    bridge = FakeBridge({"fs.readBytes": lambda _: b"\0\xff"})
    found = await value_of(
        sandbox,
        "await flo.fs.readBytes('task://a').then((b) => [b instanceof Uint8Array, ...b])",
        bridge,
    )
    assert found == [True, 0, 255]


async def test_a_handle_shows_only_its_placeholder(sandbox: Sandbox) -> None:
    bridge = FakeBridge({"vault.handle": lambda _: {"placeholder": "{{k}}"}})
    handle = "await flo.vault.handle({ scope: 'profile', key: 'k' })"
    assert await value_of(sandbox, f"(h => [h, `a ${{h}}`])({handle})", bridge) == [
        "{{k}}",
        "a {{k}}",
    ]


async def test_the_time_is_formatted_by_the_host_at_once(sandbox: Sandbox) -> None:
    bridge = FakeBridge(
        {"time.formatUnixTimestamp": lambda asked: f"{asked['seconds']} {asked['timezone']}"}
    )
    assert await value_of(sandbox, "flo.time.formatUnixTimestamp(7, 'YYYY')", bridge) == "7 UTC"
    assert bridge.asked == []


class Steps:
    """A host that keeps one step."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self.settled: list[Any] = []

    def start(self, _asked: Any) -> Any:
        return {"status": "run", "attempt": 1, "idempotency_key": "key"}

    def settle(self, asked: Any) -> Any:
        self.settled.append(asked)
        if "output" in asked:
            return {"status": "settled", "output": asked["output"]}
        if asked["attempt"] == self._attempts:
            return {"status": "failed", "error": asked["error"]}
        return {"status": "retry", "attempt": asked["attempt"] + 1, "wait_ms": 100}


STEP = """await flo.task.step({ key: "invoice", version: 1, input: { n: 2 } },
  async ({ input, attempt, idempotency_key }) => {
    if (attempt < 3) throw new RangeError(`no ${attempt}`);
    return [input.n, attempt, idempotency_key];
  })"""


async def test_a_step_is_tried_again_with_the_same_key(sandbox: Sandbox) -> None:
    """E4: callback throws twice, then returns: attempts 1, 2, 3, one key."""
    steps = Steps(3)
    bridge = FakeBridge({"task.step.start": steps.start, "task.step.settle": steps.settle})
    assert await value_of(sandbox, STEP, bridge) == [2, 3, "key"]
    assert [name for name, _ in bridge.asked] == [
        "task.step.start",
        *("task.step.settle", "sleep") * 2,
        "task.step.settle",
    ]
    assert steps.settled[0]["error"] == {"name": "RangeError", "message": "no 1"}


async def test_after_the_last_attempt_the_last_error_is_thrown(sandbox: Sandbox) -> None:
    steps = Steps(2)
    bridge = FakeBridge({"task.step.start": steps.start, "task.step.settle": steps.settle})
    caught = f"await (async () => {STEP})().catch((e) => [e.name, e.message])"
    assert await value_of(sandbox, caught, bridge) == ["RangeError", "no 2"]


async def test_a_settled_step_returns_its_output_without_running(sandbox: Sandbox) -> None:
    settled = {"status": "settled", "output": "kept"}
    bridge = FakeBridge({"task.step.start": lambda _: settled})
    assert await value_of(sandbox, STEP, bridge) == "kept"


async def test_a_step_inside_a_step_is_refused(sandbox: Sandbox) -> None:
    """A step inside a step, or two at once in one task: `TypeError`."""
    steps = Steps(1)
    bridge = FakeBridge({"task.step.start": steps.start, "task.step.settle": steps.settle})
    inner = "flo.task.step({ key: 'b', version: 1 }, () => 1).catch((e) => e.message)"
    nested = f"await flo.task.step({{ key: 'a', version: 1 }}, async () => await {inner})"
    assert "cannot stand in another" in await value_of(sandbox, nested, bridge)
