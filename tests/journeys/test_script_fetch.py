"""Requests of scripts to other servers: what is sent, how often, and what is recorded."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage
from tests.kit.dying_log import DyingLog
from tests.kit.local_egress import way
from tests.kit.origin import Origin, answer, origin
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage

WORD = "s3cr3t-value"
DECLARED = "[{key: token, scope_kinds: [profile]}]"


@pytest.fixture
async def server() -> AsyncIterator[Origin]:
    """Serve: /hang never answers, /moved moves on, /fail fails, all else echoes its request."""

    async def say(heard: str, writer: asyncio.StreamWriter) -> None:
        path = heard.split(" ")[1]
        if path == "/hang":
            await asyncio.Event().wait()
        if path == "/moved":
            writer.write(answer(b"", "302 Found", "location: /other"))
        elif path == "/fail":
            writer.write(answer(b"no", "503 Busy"))
        else:
            writer.write(answer(heard.encode(), "200 OK", "x-a: 1", "X-A: 2"))

    async with origin(say) as running:
        yield running


def stage_of(project: ProjectFolder, server: Origin, script: str, **more: Any) -> Stage:
    """Return a stage with one tool that may reach the server."""
    place: MemoryStorage = more.pop("place", None) or MemoryStorage(clock=FakeClock())
    place.egress = way(server.port, Limits()).egress
    url = f"http://api.test:{server.port}"
    wait = 'const wait = () => flo.task.waitForUserMessage({ user_message: "?" });'
    head = f'const url = "{url}";\n{wait}\n'
    project.tool("ask", head + script, egress=f'["{url}"]', **more)
    return Stage(project, place=place)


async def with_secret(stage: Stage) -> Stage:
    mine = Scope(ScopeKind.PROFILE, "local")
    await stage.place.vault.set(mine, "token", WORD)
    return stage


async def everything(stage: Stage) -> str:
    """Return all that is written down of the newest task."""
    return repr(await stage.events())


async def test_a_script_sees_status_headers_and_body(
    project: ProjectFolder, server: Origin
) -> None:
    script = """
        export async function run() {
          const r = await fetch(new URL("/a?b=1", url), { headers: { "X-Own": "2" } });
          const sent = await fetch(url + "/p", { method: "POST", body: JSON.stringify({ a: 1 }) });
          const failed = await fetch(url + "/fail");
          return { status: r.status, ok: r.ok, a: r.headers["x-a"], url: r.url,
            own: (await r.text()).includes("x-own: 2"),
            body: (await sent.text()).endsWith('{"a":1}'),
            failed: [failed.status, failed.ok, (await failed.arrayBuffer()).byteLength] };
        }
    """
    output = await stage_of(project, server, script).output("ask")
    assert output == {
        "status": 200,
        "ok": True,
        "a": "1, 2",
        "url": f"http://api.test:{server.port}/a?b=1",
        "own": True,
        "body": True,
        "failed": [503, False, 2],
    }


async def test_redirects_are_followed_as_declared(project: ProjectFolder, server: Origin) -> None:
    script = """
        export async function run() {
          const followed = await fetch(url + "/moved");
          const seen = await fetch(url + "/moved", { redirect: "manual" });
          const refused = await fetch(url + "/moved", { redirect: "error" }).catch((e) => e.code);
          return [followed.url.endsWith("/other"), seen.status, refused];
        }
    """
    output = await stage_of(project, server, script).output("ask")
    assert output == [True, 302, "UPSTREAM_UNAVAILABLE"]


async def test_an_undeclared_host_is_refused(project: ProjectFolder, server: Origin) -> None:
    script = """
        const told = (where: string) => fetch(where).catch((e) => [e.code, e.message]);
        export const run = async () => [
          await told("https://example.com/"), await told(url.replace("api", "b"))];
    """
    output = await stage_of(project, server, script).output("ask")
    assert [code for code, _ in output] == ["EGRESS_DENIED"] * 2
    assert all("ask" in message for _, message in output)
    assert server.heard == []


async def test_an_abort_ends_the_request(project: ProjectFolder, server: Origin) -> None:
    script = """
        export async function run() {
          const stop = new AbortController();
          const asked = fetch(url + "/hang", { signal: stop.signal }).catch((e) => e.name);
          await flo.sleep(0);
          stop.abort();
          return asked;
        }
    """
    assert await stage_of(project, server, script).output("ask") == "AbortError"


@pytest.mark.parametrize(("record", "times"), [("true", 1), ("false", 2)])
async def test_a_recorded_response_is_not_requested_again(
    project: ProjectFolder, server: Origin, record: str, times: int
) -> None:
    script = f"""
        export async function run() {{
          const r = await fetch(url + "/token-of-mine", {{ record: {record} }});
          await wait();
          return (await r.text()).length > 10;
        }}
    """
    stage = stage_of(project, server, script)
    await stage.call("ask")
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    assert reply.envelope.output is True
    assert len(server.heard) == times
    assert ("$bytes" in await everything(stage)) == (record == "true")


# Writes to the log: 1 the request, 2 the task, 3 the clock and the start of the request, 4 its end.
CUT = [
    ("write", "false", "POST", "INTERRUPTED", 1),
    ("write", "true", "POST", 200, 2),
    ("read", "false", "POST", 200, 2),
    ("write", "false", "GET", 200, 2),
]


@pytest.mark.chaos
@pytest.mark.parametrize("row", CUT)
async def test_a_request_cut_by_a_crash_follows_its_effect(
    project: ProjectFolder, server: Origin, row: tuple[str, str, str, Any, int]
) -> None:
    effect, idempotent, method, result, times = row
    script = f"""
        export const run = () => fetch(url + "/", {{ method: "{method}" }})
          .then(async (r) => {{ await flo.sleep(0); return r.status; }}, (e) => e.code);
    """
    clock = FakeClock()
    write = {"write": 4, "read": 3}[effect] if method == "POST" else 3
    log = DyingLog(clock, writes=write, before=True)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    more = {"effect": effect, "idempotent": idempotent}
    stage = stage_of(project, server, script, place=place, **more)
    assert (await stage.survive("ask", {})).output == result
    assert len(server.heard) == times


async def test_a_secret_is_in_nothing_that_is_recorded(
    project: ProjectFolder, server: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    """V5: outputs, nested ones too, errors, stacks, console, events, questions, fetch answers."""
    project.tool("echo", "export const run = (given: any) => given;")
    project.tool("throws", "export const run = ({ t }: any) => { throw new Error(`bad ${t}`); };")
    script = """
        export async function run() {
          const t = await flo.vault.get({ scope: "profile", key: "token" });
          console.log("it is", t, btoa(t), encodeURIComponent(t));
          await flo.task.emitEvent({ event_type: "told", title: t, message: t, payload: { t } });
          const echoed = await flo.callTool({ tool_id: "echo", input: { t } });
          const thrown = await flo.callTool({ tool_id: "throws", input: { t } });
          const r = await fetch(url + "/", {
            method: "POST", headers: { authorization: t }, body: t });
          await flo.task.waitForUserMessage({ user_message: `Is it ${t}?`, resume_payload: { t } });
          return { echoed, thrown, fetched: (await r.text()).split("\\r\\n"), t };
        }
    """
    stage = await with_secret(stage_of(project, server, script, vault=DECLARED))
    parked = await stage.call("ask")
    assert "Is it [secret:token]?" in await everything(stage)
    reply = await stage.answer({"text": "yes"})
    assert reply.envelope
    output = reply.envelope.output
    assert output["t"] == output["echoed"]["output"]["t"] == "[secret:token]"
    assert output["thrown"]["error"]["message"] == "bad [secret:token]"
    assert "authorization: [secret:token]" in output["fetched"]
    assert f"authorization: {WORD}" in server.heard[0]
    for place in (await everything(stage), repr(reply), repr(parked), caplog.text):
        assert WORD not in place
        assert "czNjcjN0LXZhbHVl" not in place


async def test_an_uncaught_error_shows_no_secret(project: ProjectFolder, server: Origin) -> None:
    script = """
        export async function run() {
          const t = await flo.vault.get({ scope: "profile", key: "token" });
          throw new Error(`no ${t}`);
        }
    """
    stage = await with_secret(stage_of(project, server, script, vault=DECLARED))
    envelope = await stage.call("ask")
    assert envelope.error
    assert envelope.error.message == "no [secret:token]"
    assert WORD not in await everything(stage)


async def test_a_secret_handle_is_resolved_only_for_a_declared_host(
    project: ProjectFolder, server: Origin
) -> None:
    """V7: "`fetch` puts the secret in its place"; "Anywhere else it is inert text"."""
    script = """
        export async function run() {
          const t = await flo.vault.handle({ scope: "profile", key: "token" });
          const form = new FormData();
          form.set("field", String(t));
          await fetch(url + `/?q=${t}`, { headers: { authorization: `Bearer ${t}` } });
          await fetch(url + "/", { method: "POST", body: `t=${t}` });
          await fetch(url + "/", { method: "POST", body: new URLSearchParams({ t: String(t) }) });
          await fetch(url + "/", { method: "POST", body: form });
          await fetch(url + `/${t}`);
          return String(t).includes("s3cr3t");
        }
    """
    stage = await with_secret(stage_of(project, server, script, vault=DECLARED))
    assert await stage.output("ask") is False
    values = [WORD in heard for heard in server.heard]
    assert values == [True, True, True, True, False]
    assert f"authorization: Bearer {WORD}" in server.heard[0]
    assert WORD not in await everything(stage)
