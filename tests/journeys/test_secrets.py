"""A secret that a script was given, and every place where people and models look."""

from pathlib import Path

import httpx2
import pytest

from penstock.agents.agent import Agent
from penstock.core.scope import Scope, ScopeKind
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


@pytest.mark.slow("a whole project, opened and served")
async def test_a_secret_is_in_no_stream_no_history_no_request_and_no_file(
    project: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """V5: "in that task every place that is recorded or shown has `[secret:{key}]` for it"."""
    project.tool("echo", "export const run = (given: any) => given;")
    project.tool("uses", SCRIPT, vault="[{key: token, scope_kinds: [profile]}]")
    write_skill(project, "a", tools="[uses]")
    model = ScriptedModel({"Go": [call("uses"), say("Done.")]})
    async with project.opened(agents=[Agent(model=model)]) as runtime:
        archive = runtime.parts.archive
        assert archive is not None
        await archive.vault.set(Scope(ScopeKind.PROFILE, "local"), "token", WORD)
        transport = httpx2.ASGITransport(create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            body = {"content": "Go", "stream": True, "selectedSkillIds": ["a"]}
            stream = await client.post(CHAT, json=body)
            session = stream.headers["x-conversation-id"]
            query = {"conversationId": session}
            history = await client.get(CHAT, params=query)
            told = await client.get(f"{CHAT}/stream", params=query)
    shown = [stream.text, history.text, told.text, repr(model.requests), caplog.text]
    assert (history.status_code, "Done." in history.text) == (200, True)
    assert "[secret:token]" in stream.text
    assert "[secret:token]" in repr(model.requests)
    for place in shown:
        assert WORD not in place
        assert "czNjcjN0LXZhbHVl" not in place
    assert not [each for each in _files(project.root) if WORD.encode() in each.read_bytes()]


def _files(root: Path) -> list[Path]:
    return [each for each in root.rglob("*") if each.is_file()]
