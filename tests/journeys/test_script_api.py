"""The functions of scripts, called as authors call them: results, errors, refusals."""

from typing import Any

import pytest

from penstock.core.scopes import Scope, ScopeKind, parse_path
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

TOLD = """
    const told = async (work: () => any) => {
      try { return await work(); } catch (e: any) { return e.code ?? e.name; }
    };
    const any = (flo: any) => flo;
"""
MISTAKES = {
    "calls": [
        "any(flo).callTool()",
        "any(flo).callTool({})",
        "any(flo).callTool({ tool_id: '' })",
        "any(flo).callTool({ tool_id: 5, input: {} })",
        "any(flo).callTool({ tool_id: 'look', input: () => 1 })",
        "any(flo).callTool({ tool_id: 'look', input: { n: 1n } })",
        "any(flo).callTool({ tool_id: 'look', input: {}, wait: 1 })",
    ],
    "time": [
        "flo.sleep(-1)",
        "flo.sleep(NaN)",
        "flo.sleep(3600001)",
        "any(flo).sleep('1')",
        "flo.time.formatUnixTimestamp(1.5, 'YYYY')",
        "flo.time.formatUnixTimestamp(1, '')",
        "flo.time.formatUnixTimestamp(1, '[week]')",
        "flo.time.formatUnixTimestamp(1, 'YYYY', 'Mars/Olympus')",
        "flo.time.formatUnixTimestamp(1e15, 'YYYY')",
        "flo.getRuntimeConfig(' ')",
    ],
    "values": [
        "any(flo).task.getState({})",
        "any(flo).task.putState({ key: 'k' })",
        "any(flo).task.getState({ key: 'k', kye: 1 })",
        "any(flo).task.putState({ key: 'k', value: 1, ttl: 5 })",
        "any(flo).task.getToolState({ key: 'k', tool: 'other' })",
        "any(flo).task.putToolState({ key: 'k', value: 1, if_version: '1' })",
        "any(flo).task.step({ key: 'k', version: 1, retries: 1 }, () => 1)",
        "any(flo).task.step({ key: 'k', version: 1, retry: { attempts: 1 } }, () => 1)",
        "flo.task.putState({ key: 'k', value: 1, ttl_seconds: 0 })",
        "any(flo).task.putToolState({ key: 'k', value: 1, tool_id: 'other' })",
        "any(flo).state.get({ scope_kind: 'session', scope_id: 'x', key: 's.k' })",
        "any(flo).state.get({ scope_kind: 'all', key: 's.k' })",
        "any(flo).state.put({ scope_kind: 'session', key: 's.k' })",
        "any(flo).state.put({ scope_kind: 'session', key: 's.k', value: 1, ttl: 60 })",
        "any(flo).state.get({ scope_kind: 'session', key: 's.k', value: 1 })",
        "any(flo).state.list({ scope_kind: 'session', key_prefix: 's.', limt: 1 })",
        "any(flo).state.delete({ scope_kind: 'session', key: 's.k', revision: 'r' })",
        "any(flo).state.patch({ scope_kind: 'session', key: 's.k', patch: [1] })",
        "flo.state.list({ scope_kind: 'session', key_prefix: 's.', limit: 1001 })",
    ],
    "people": [
        "flo.task.waitForUserMessage({ user_message: ' ' })",
        "any(flo).task.waitForUserMessage({ user_message: '?', timeout: { seconds: 0 } })",
        "flo.task.waitForUserMessage({ user_message: '?', resume_payload: 1, resume_schema: 1 })",
        "flo.task.emitEvent({ event_type: 'a b' })",
        "any(flo).task.emitEvent({ event_type: 'a', text: 'x' })",
        "any(flo).task.waitForUserMessage({ user_message: '?', payload: 1 })",
        "any(flo).task.waitForUserMessage({ user_message: '?', timeout: { minutes: 1 } })",
        "any(flo).task.emitEvent({ event_type: 'a', level: 'loud' })",
        "flo.task.emitEvent({ event_type: 'a', message: 'x'.repeat(4001) })",
    ],
    "files": [
        "flo.file('/etc/passwd')",
        "flo.file('task://a').text()",
        "flo.fs.readBytes('task://a/../b')",
        "any(flo).vault.get({ scope: 'session', key: 'token' })",
        "any(flo).vault.get({ scope: 'shared', key: 'token' })",
        "any(flo).vault.get({ scope: 'profile', key: 'token', kind: 1 })",
        "new flo.ToolError({ code: 'TIMEOUT', message: 'x' })",
        "any(flo).task = 1",
        "any(flo.task).getState = 1",
    ],
}
STATE = "[{name: s, key_prefix: s., scope_kind: session}]"


@pytest.mark.parametrize("group", MISTAKES)
async def test_a_wrong_argument_is_a_type_error_and_the_script_continues(
    project: ProjectFolder, group: str
) -> None:
    tries = ",\n".join(f"await told(() => {each})" for each in MISTAKES[group])
    project.tool("ask", f"{TOLD}\nexport const run = async () => [{tries}];", state=STATE)
    output = await Stage(project, Act("look", direct_call=True)).output("ask")
    assert dict(zip(MISTAKES[group], output, strict=True)) == dict.fromkeys(
        MISTAKES[group], "TypeError"
    )


REFUSALS = {
    "any(flo).browser.run({})": "NOT_AVAILABLE",
    "flo.vault.get({ scope: 'profile', key: 'other' })": "VAULT_DENIED",
    "flo.vault.get({ scope: 'shared', scope_id: 'x', key: 'token' })": "VAULT_NOT_FOUND",
    "flo.state.get({ scope_kind: 'session', key: 'other' })": "STATE_DENIED",
    "flo.fs.readBytes('task://none')": "TOOL_FAILED",
    "fetch('https://example.com/')": "NOT_AVAILABLE",
}


async def test_a_refusal_is_an_error_with_a_code(project: ProjectFolder) -> None:
    tries = ",\n".join(f"await told(() => {each})" for each in REFUSALS)
    vault = "[{key: token, scope_kinds: [profile, shared]}]"
    script = f"{TOLD}\nexport const run = async () => [{tries}];"
    project.tool("ask", script, state=STATE, vault=vault)
    output = await Stage(project).output("ask")
    assert dict(zip(REFUSALS, output, strict=True)) == REFUSALS


async def test_an_uncaught_refusal_is_the_outcome(project: ProjectFolder) -> None:
    script = "export const run = () => flo.vault.get({ scope: 'profile', key: 'other' });"
    project.tool("ask", script)
    envelope = await Stage(project).call("ask")
    assert envelope.error
    assert (envelope.error.code, envelope.error.continuable) == ("VAULT_DENIED", True)


VALUES = """
    export async function run() {
      const { state, task } = flo;
      const at = { scope_kind: "session", key: "s.k" } as const;
      const list = { scope_kind: "session", key: "s.l" } as const;
      const missing = await state.get(at);
      const put = await state.put({ ...at, value: { a: { b: 1, c: 2 } }, ttl_seconds: 60 });
      const patched = await state.patch({ ...at, patch: { a: { c: null }, d: 3 } });
      const plain = await state.put({ ...at, value: patched.entry?.value });
      const conflict = await state.put({ ...at, value: 1, if_revision: put.entry?.revision });
      const exists = await state.put({ ...at, value: 1, if_revision: null });
      await state.append({ ...list, item: 1 });
      const appended = await state.append({ ...list, item: 2 });
      const page = await state.list({ scope_kind: "session", key_prefix: "s.", limit: 1 });
      const rest = await state.list({ scope_kind: "session", key_prefix: "s.",
        cursor: page.next_cursor });
      const wrong = await state.append({ ...at, item: 1 }).catch((e) => e.name);
      const gone = await state.delete(at);
      const again = await state.delete(at);
      const none = await state.put({ ...at, value: 1, if_revision: "x" });
      return {
        missing, value: patched.entry?.value, kept: !!patched.entry?.expires_at,
        plain: plain.entry?.expires_at ?? null,
        conflict: [conflict.ok, !!conflict.conflict_revision],
        exists: exists.ok, appended: appended.entry?.value, keys: [page, rest].map((each) =>
          each.entries.map((entry) => entry.key)), more: rest.next_cursor ?? null, wrong,
        gone: gone.ok, again, none, distinct: put.entry?.revision !== patched.entry?.revision,
      };
    }
"""


async def test_values_of_scripts_are_durable(project: ProjectFolder) -> None:
    """T4 to T10."""
    project.tool("ask", VALUES, state=STATE)
    assert await Stage(project).output("ask") == {
        "missing": None,
        "value": {"a": {"b": 1}, "d": 3},
        "kept": True,
        "plain": None,
        "conflict": [False, True],
        "exists": False,
        "appended": [1, 2],
        "keys": [["s.k"], ["s.l"]],
        "more": None,
        "wrong": "TypeError",
        "gone": True,
        "again": {"ok": False},
        "none": {"ok": False},
        "distinct": True,
    }


async def test_t11_two_equal_writes_happen_once(project: ProjectFolder) -> None:
    """T11: "of two `put` with the same `if_revision` exactly one is ok"."""
    script = """
        export const run = async () => (await Promise.all([1, 2].map((value) => flo.state.put({
          scope_kind: "session", key: "s.k", value, if_revision: null })))).map((r) => r.ok);
    """
    project.tool("ask", script, state=STATE)
    assert await Stage(project).output("ask") == [True, False]


async def test_an_unknown_member_of_a_write_is_named_with_the_nearest(
    project: ProjectFolder,
) -> None:
    script = """
        export const run = () => (flo.state as any).put({
          scope_kind: "session", key: "s.k", value: 1, ttl_second: 60, if_revision: undefined,
        }).catch((error: Error) => error.message);
    """
    project.tool("ask", script, state=STATE)
    output = await Stage(project).output("ask")
    assert output == 'flo.state.put takes no "ttl_second"; did you mean "ttl_seconds"?'


async def test_a_script_knows_its_task_its_profile_and_the_configuration(
    project: ProjectFolder,
) -> None:
    script = """
        export const run = async () => [
          await flo.task.getContext<any>(), await flo.task.getProfile(),
          await flo.getRuntimeConfig(" region "), await flo.getRuntimeConfig("none") ?? "undefined",
          flo.task.limits.maxSpawnChildren, flo.time.formatUnixTimestamp(0, "YYYY-MM-DD"),
        ];
    """
    project.tool("ask", script)
    project.tool("mail", "export const run = () => 1;", requires_permissions='["mail.send"]')
    project.write("penstock.toml", '[runtime_config]\nregion = "north"\n')
    stage = Stage(project)
    context, profile, *texts = await stage.output("ask")
    assert context["task_id"] == context["session_id"] == stage.task_id
    assert {"depth": 1, "entry": 1, "attempt": 1, "tool_id": "ask"}.items() <= (
        context["call"].items()
    )
    assert profile.keys() == {"profile_id", "profile_kind", "permissions"}
    assert {"chat", "mail.send"} <= set(profile["permissions"])
    assert texts == ["north", "undefined", 32, "1970-01-01"]


@pytest.mark.parametrize(
    ("answer", "resumed"),
    [
        ({"text": "yes"}, {"kind": "user_message", "user_message": "yes", "n": 1}),
        (
            {"text": "yes", "resume_payload": {"n": 2}},
            {"kind": "user_message", "user_message": "yes", "n": 2},
        ),
    ],
)
async def test_the_context_has_the_newest_answer(
    project: ProjectFolder, answer: dict[str, Any], resumed: dict[str, Any]
) -> None:
    script = """
        export async function run() {
          const { resume_payload: before } = await flo.task.getContext<any>();
          await flo.task.waitForUserMessage({ user_message: "?", resume_payload: { n: 1 },
            resume_schema: { type: "object", properties: { n: { type: "integer" } } } });
          const { call, resume_payload } = await flo.task.getContext<any>();
          return [before ?? null, call.entry, resume_payload];
        }
    """
    project.tool("ask", script)
    stage = Stage(project)
    await stage.call("ask")
    reply = await stage.answer(answer)
    assert reply.envelope
    assert reply.envelope.output == [resumed, 2, resumed]


async def test_the_context_has_an_approval(project: ProjectFolder) -> None:
    script = """
        export async function run() {
          await flo.callTool({ tool_id: "send", input: {} });
          return (await flo.task.getContext<any>()).resume_payload.kind;
        }
    """
    project.tool("ask", script)
    stage = Stage(project, Act("send", echo, direct_call=True, requires_approval=True))
    await stage.call("ask")
    reply = await stage.answer({"decision": "approve"})
    assert reply.envelope
    assert reply.envelope.output == "approval"


async def test_a_script_reads_the_bytes_of_a_file(project: ProjectFolder) -> None:
    writes = """
        export async function run() {
          const input = { path: "session://a/b.txt", content: "h\\u00e9" };
          await flo.callTool({ tool_id: "write_text_file", input });
          const bytes = await flo.fs.readBytes("session://a/b.txt");
          const file = flo.file("session://a/b.txt");
          return [[...bytes], file.name, bytes instanceof Uint8Array];
        }
    """
    assert parse_path("session://a/b.txt").path == "a/b.txt"
    project.tool("ask", writes, script_tools="[write_text_file]")
    assert await Stage(project).output("ask") == [[0x68, 0xC3, 0xA9], "b.txt", True]


async def test_an_author_can_throw_an_error_with_a_code(project: ProjectFolder) -> None:
    script = """
        export const run = () => { throw new flo.ToolError({ code: "MY_CODE", message: "no",
          retryable: true, continuable: false, details: { n: 1 } }); };
    """
    project.tool("ask", script)
    stage = Stage(project)
    await stage.place.vault.set(Scope(ScopeKind.PROFILE, "local"), "token", "s3cr3t-value")
    error = (await stage.call("ask")).error
    assert error
    assert (error.code, error.message, error.retryable, error.continuable) == (
        "MY_CODE",
        "no",
        True,
        False,
    )
    assert error.details == {"n": 1}
