"""A secret that a script received, and every place where people and models read."""

import base64
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from penstock.agents.agent import Agent
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from tests.kit.project import ProjectFolder
from tests.kit.server import CHAT, HERE
from tests.kit.visibility import write_skill

WORD = "s3cr3t-value"
SCRIPT = """
    export async function run() {
      const t = await flo.vault.get({ scope: "profile", key: "token" });
      console.log(t);
      const r = await flo.callTool({ tool_id: "echo", input: { t } });
      await flo.task.emitEvent({ event_type: "told", message: t });
      return { t, nested: r.output, encoded: btoa(t) };
    }
"""

TRIES = """
    export async function run() {
      const t = await flo.vault.get({ scope: "profile", key: "token" });
      const told: string[] = [];
      const use = (tool_id: string, input: any) => flo.callTool({ tool_id, input, wait: false });
      const told_of = async (work: () => Promise<any>) => {
        try {
          const found = await work();
          told.push(found?.error?.code ?? found?.status ?? "done");
        } catch (error: any) {
          told.push(error.code ?? error.name);
        }
      };
      const once = async () => 1;
      const mine = { scope_kind: "session", value: 1 } as const;
      await told_of(() => flo.state.put({ ...mine, key: `k.${t}` }));
      await told_of(() => flo.state.append({ scope_kind: "session", key: `k.${t}`, item: 1 }));
      await told_of(() => flo.state.patch({ scope_kind: "session", key: `k.${t}`, patch: {} }));
      await told_of(() => flo.task.putState({ key: t, value: 1 }));
      await told_of(() => flo.task.putToolState({ key: btoa(t), value: 1 }));
      await told_of(() => flo.task.step({ key: `s${t}`, version: 1, input: {} }, once));
      await told_of(() => flo.task.step({ key: "s", version: t, input: {} }, once));
      await told_of(() => use(t, {}));
      await told_of(() => use(`a/${t}`, { t }));
      await told_of(() => use("write_text_file", { path: `task://${t}/a.txt`, content: "a" }));
      const media = { base64_data: "YWFh", media_type: "text/plain" };
      await told_of(() => use("media_push_base64", { ...media, filename: `${t}.txt` }));
      const kept: any = await use("media_push_base64", media);
      const sent = { media_id: kept.output.media_id, filename: `${t}.txt` };
      await told_of(() => use("send_media_attachment", sent));
      const options = [{ label: t, value: t, aliases: [t] }, "b"];
      await told_of(() => use("ask_user", { question: t, context: t, options }));
      await told_of(() => use("ask_user", { question: t, type: "input", defaultValue: t }));
      await told_of(() => use("fails", { t }));
      await told_of(() => flo.task.emitEvent({ event_type: t, title: t, message: t, payload: t }));
      return told;
    }
"""
TOLD = [
    *["STATE_DENIED"] * 7,
    *["TOOL_NOT_FOUND"] * 2,
    *["STATE_DENIED"] * 2,
    "success",
    *["SUSPENDED"] * 2,
    "UPSTREAM_UNAVAILABLE",
    "done",
]
FAILS = """
    export function run({ t }: any) {
      throw new flo.ToolError({ code: "UPSTREAM_UNAVAILABLE", message: t, retryable: true });
    }
"""


@pytest.mark.slow("a whole project, opened")
async def test_a_secret_is_in_no_key_no_id_and_no_name(project: ProjectFolder) -> None:
    """V5, V6: a key or a name that holds a secret is refused; an id is shown without it."""
    state = "[{name: own, key_prefix: k., scope_kind: session}]"
    vault = "[{key: token, scope_kinds: [profile]}]"
    helpers = "[write_text_file, media_push_base64, send_media_attachment, fails]"
    project.tool("uses", TRIES, vault=vault, state=state, script_tools=helpers)
    retry = "{max_attempts: 2, initial_backoff_ms: 0}"
    project.tool("fails", FAILS, direct_call="false", retry_policy=retry)
    async with project.opened() as runtime:
        database_parts = runtime.parts.storage.database_parts
        assert database_parts is not None
        await database_parts.vault.set(Scope(ScopeKind.PROFILE, "local"), "token", WORD)
        envelope = await runtime.call("uses", {})
    assert envelope.output == TOLD
    for file in _files(project.root):
        content = file.read_bytes()
        assert WORD.encode() not in content
        assert b"czNjcjN0LXZhbHVl" not in content


@pytest.mark.slow("a whole project, opened and served")
async def test_a_secret_is_in_no_stream_no_history_no_request_and_no_file(
    project: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """V5: "in that task every place that is recorded or shown has `[secret:{key}]` for it"."""
    project.tool("echo", "export const run = (given: any) => given;")
    project.tool("uses", SCRIPT, vault="[{key: token, scope_kinds: [profile]}]")
    write_skill(project, "a", tools="[uses]")
    model = ScriptedModel({"Go": [call("uses"), say("Done.")]})
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        database_parts = runtime.parts.storage.database_parts
        assert database_parts is not None
        await database_parts.vault.set(Scope(ScopeKind.PROFILE, "local"), "token", WORD)
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            body = {"content": "Go", "stream": True, "selectedSkillIds": ["a"]}
            stream = await client.post(CHAT, json=body)
            session = stream.headers["x-conversation-id"]
            query = {"conversationId": session}
            history = await client.get(CHAT, params=query)
            result = await client.get(f"{CHAT}/stream", params=query)
    shown = [stream.text, history.text, result.text, repr(model.requests), caplog.text]
    assert (history.status_code, "Done." in history.text) == (200, True)
    assert "[secret:token]" in stream.text
    assert "[secret:token]" in repr(model.requests)
    for place in shown:
        assert WORD not in place
        assert "czNjcjN0LXZhbHVl" not in place
    assert not [each for each in _files(project.root) if WORD.encode() in each.read_bytes()]


def _files(root: Path) -> list[Path]:
    return [each for each in root.rglob("*") if each.is_file()]


LINES = [f"{number:02}Zq/+8Kx" * 6 for number in range(12)]
KEY = "\n".join(["-----BEGIN KEY-----", *LINES, "-----END KEY-----"])
SPELLS = """
    const hex = (t: string) => [...t].map((c) => c.charCodeAt(0).toString(16).padStart(2, "0"));
    const forms = (t: string) => [
      t,
      JSON.stringify(JSON.stringify({ t: JSON.stringify([t]) })),
      btoa(t).replace(/(.{76})/g, "$1\\r\\n"),
      JSON.stringify(btoa(`x${t}`).replace(/(.{64})/g, "$1\\n")),
      btoa(`xy${t}`).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""),
      hex(t).map((c) => `%${c}`).join(""),
      encodeURIComponent(encodeURIComponent(JSON.stringify(t))),
      hex(t).join(""),
      [...t].map((c) => `&#${c.charCodeAt(0)};`).join(""),
      new TextEncoder().encode(t),
      ...t.split("\\n"),
    ];
    const said = (work: () => unknown) => {
      try {
        return String(work());
      } catch (error: any) {
        return `${error.message} ${error.stack}`;
      }
    };
    export async function run() {
      const t = await flo.vault.get({ scope: "profile", key: "token" });
      const word = await flo.vault.get({ scope: "profile", key: "word" });
      const told = [...forms(t).filter((form) => typeof form === "string"), ...forms(word)];
      const parsed = [t, word, `{"a": ${word}}`].map((text) => said(() => JSON.parse(text)));
      const named = said(() => (null as any)[LONG_NAME(t)]);
      const use = (tool_id: string, input: any) => flo.callTool({ tool_id, input, wait: false });
      for (const text of [...told, ...parsed, named]) {
        if (typeof text !== "string") continue;
        console.log(text);
        await flo.task.emitEvent({ event_type: "told", message: text, payload: { text } });
        await use("echo", { text });
        await use("fails", { text });
      }
      await use("ask_user", { question: told.join("\\n") });
      await use("write_text_file", { path: "task://a", content: t });
      const read = new TextDecoder().decode(await flo.fs.readBytes("task://a"));
      return { told, parsed, named, read };
    }
    const LONG_NAME = (t: string) => t.split("\\n").slice(1, 4).join("");
"""


def traces_of(secret: str) -> dict[str, str]:
    """Return the middle of each spelling of a secret: at its ends base64 mixes bytes."""
    content = secret.encode()
    fields = {
        "as it is": secret,
        "base64": base64.b64encode(content).decode(),
        "base64 behind one": base64.b64encode(b"x" + content).decode(),
        "base64url behind two": base64.urlsafe_b64encode(b"xy" + content).decode(),
        "hex": content.hex(),
        "percent": "".join(f"%{byte:02x}" for byte in content),
        "entities": "".join(f"&#{byte};" for byte in content),
        "number by number": ", ".join(map(str, content)),
    }
    middle = {name: len(text) // 2 for name, text in fields.items()}
    return {
        name: text[max(3, middle[name] - 8) : middle[name] + 8] for name, text in fields.items()
    }


@pytest.mark.slow("a whole project, opened")
async def test_no_spelling_of_a_secret_is_in_anything_that_is_recorded(
    project: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them is returned, printed, told, handed on, asked and thrown."""
    vault = "[{key: token, scope_kinds: [profile]}, {key: word, scope_kinds: [profile]}]"
    helpers = "[write_text_file, echo, fails, ask_user]"
    project.tool("uses", SPELLS, vault=vault, script_tools=helpers)
    project.tool("echo", "export const run = (given: any) => given;")
    project.tool("fails", FAILS.replace("{ t }", "{ text: t }"), direct_call="false")
    async with project.opened() as runtime:
        database_parts = runtime.parts.storage.database_parts
        assert database_parts is not None
        for key, value in (("token", KEY), ("word", WORD)):
            await database_parts.vault.set(Scope(ScopeKind.PROFILE, "local"), key, value)
        envelope = await runtime.call("uses", {})
    assert envelope.error is None, envelope
    assert envelope.output["read"] == "[secret:token]"
    written = sha256(KEY.encode()).hexdigest()  # the file: what a tool writes is its own
    recorded = [each.read_bytes() for each in _files(project.root) if each.name != written]
    places = {"files": b"".join(recorded).decode("latin-1"), "log": caplog.text}
    places["output"] = str(envelope.output)
    traces = [(word, name, each) for word in (KEY, WORD) for name, each in traces_of(word).items()]
    traces += [(KEY, f"line {number}", line[:20]) for number, line in enumerate(LINES)]
    traces += [(WORD, "what an engine quotes", "s3cr3t")]
    values = [
        (name, place) for place in places for _, name, each in traces if each in places[place]
    ]
    assert values == []
