"""One tool tried out: everything is real but for what a mocks file says."""

from typing import Any

import pytest

from penstock.app.mocks import Mocks
from penstock.app.trial import TrialPlan, load_for_trial, open_trial
from penstock.chat.message import NewCall
from penstock.core.scope import ScopeKind
from tests.kit.project import ProjectFolder
from tests.kit.trials import tried

WORLD = """
    export async function run() {
      const secret = await flo.vault.get({ scope: "profile", key: "k" });
      const team = await flo.vault.get({ scope: "shared", scope_id: "team", key: "k" });
      const { who, task_id } = await flo.task.getContext<any>();
      return { length: secret.length, secret, team: team.length, who, named: task_id !== "mine",
               url: await flo.getRuntimeConfig("url") };
    }
"""
COUNT = """
    export async function run() {
      const at = { scope_kind: "session" as const, key: "count.n" };
      const before = await flo.state.get<number>(at);
      await flo.state.put({ ...at, value: (before?.value ?? 0) + 1 });
      await flo.state.append({ scope_kind: "shared", key: "all.n", item: 1 });
      return before;
    }
"""
STATE = (
    "[{name: c, key_prefix: count., scope_kind: session},"
    " {name: a, key_prefix: all., scope_kind: shared, scope_id: everyone}]"
)


async def test_secrets_texts_and_context_come_from_the_mocks(project: ProjectFolder) -> None:
    """Secrets of the mocks file are redacted like real ones."""
    project.tool("world", WORLD, vault="[{key: k, scope_kinds: [profile, shared]}]")
    mocks = Mocks(
        secrets={"k": "s3cret"},
        shared_secrets={"team": {"k": "hunter22"}},
        runtime_config={"url": "https://a.example"},
        context={"who": "Ann", "task_id": "mine"},
    )
    envelope = await tried(project, "world", {}, mocks)
    assert envelope.output == {
        "length": 6,
        "secret": "[secret:k]",
        "team": 8,
        "who": "Ann",
        "named": True,
        "url": "https://a.example",
    }


async def test_a_secret_that_the_mocks_have_not_is_not_there(project: ProjectFolder) -> None:
    """Nothing else is read from the real vault."""
    project.tool("world", WORLD, vault="[{key: k, scope_kinds: [profile, shared]}]")
    envelope = await tried(project, "world", {}, Mocks())
    assert envelope.error
    assert envelope.error.code == "VAULT_NOT_FOUND"


async def test_the_state_begins_as_the_mocks_say_and_can_be_read_back(
    project: ProjectFolder,
) -> None:
    """For the other kinds any one `scope_id` stands for the local one."""
    project.tool("count", COUNT, state=STATE)
    entry = {"value": 4, "revision": "r4", "expires_at": "2999-01-01T00:00:00Z"}
    over = {"value": 0, "revision": "r0", "expires_at": "2001-01-01T00:00:00Z"}
    mocks = Mocks(state={ScopeKind.SESSION: {"any": {"count.n": entry, "count.old": over}}})
    settings, loaded = load_for_trial(project.root, {})
    async with open_trial(settings, loaded, TrialPlan(tool_id="count", mocks=mocks)) as trial:
        await trial.runtime.request(NewCall(tool_id="count", input={}), task_id=trial.task_id)
        reply = await trial.runtime.wait(trial.task_id)
        after = await trial.state()
    assert reply
    assert reply.envelope
    assert (reply.envelope.output["value"], reply.envelope.output["revision"]) == (4, "r4")
    assert values(after) == {
        "session": {"any": {"count.n": 5}},
        "shared": {"everyone": {"all.n": [1]}},
    }


def values(state: Any) -> Any:
    """Return the values alone."""
    return {
        kind: {
            name: {key: each["value"] for key, each in all_.items()}
            for name, all_ in scopes.items()
        }
        for kind, scopes in state.items()
    }


async def test_a_tool_needs_no_direct_call_and_nothing_is_left(project: ProjectFolder) -> None:
    """The tool runs as the root direct call without needing `direct_call: true`."""
    project.tool("quiet", "export const run = () => 1;", direct_call="false")
    assert (await tried(project, "quiet", {}, Mocks())).output == 1
    assert not (project.root / ".penstock").exists()


@pytest.mark.slow("opens two stores, twice")
async def test_the_projects_store_is_used_when_it_is_asked_for(project: ProjectFolder) -> None:
    project.tool(
        "count", COUNT.replace("session", "profile"), state=STATE.replace("session", "profile")
    )
    for expected in (None, 1):
        settings, loaded = load_for_trial(project.root, {})
        plan = TrialPlan(tool_id="count", keeps=True)
        async with open_trial(settings, loaded, plan) as trial:
            await trial.runtime.request(NewCall(tool_id="count", input={}), task_id=trial.task_id)
            reply = await trial.runtime.wait(trial.task_id)
        assert reply
        assert reply.envelope
        output = reply.envelope.output
        assert (output and output["value"]) == expected
