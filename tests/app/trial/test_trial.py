"""One tool on trial: everything is real except what a mocks file replaces."""

from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.app.trial.mocks import Mocks
from penstock.app.trial.trial import TrialPlan, load_for_trial, open_trial
from penstock.chat.requests import NewCall
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.resources.vault import Vault
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


KEY = """
    export async function run() {
      return await flo.vault.get({ scope: "profile", key: "k" }) === "of-the-project";
    }
"""
PYTHON = """
from penstock import ToolContext, tool

@tool(effect="none")
async def key(ctx: ToolContext) -> bool:
    \"""Say whether the key is that of the project.\"""
    return await ctx.secret("k") == "of-the-project"
"""
LOCAL_SCOPE = Scope(ScopeKind.PROFILE, LOCAL)


def vault_of(runtime: Runtime) -> Vault:
    """Return the vault of the project."""
    assert runtime.parts.storage.database_parts is not None
    return runtime.parts.storage.database_parts.vault


@pytest.mark.slow("opens a store, and one for the trial")
@pytest.mark.parametrize("is_python", [False, True])
@pytest.mark.parametrize(
    ("mocks", "keeps", "output", "message"),
    [
        (Mocks(), True, True, ""),
        (Mocks(), False, None, "write it as vault.profile.k into a file for --mocks, or give"),
        (Mocks(has_vault=True), True, None, 'take "vault" out of them to use the vault of the pro'),
        (Mocks(has_vault=True, secrets={"k": "of-the-mocks"}), True, False, ""),
        (Mocks(has_vault=True, secrets={"k": "of-the-mocks"}), False, False, ""),
    ],
)
async def test_the_project_s_store_has_its_vault_unless_the_mocks_have_one(
    project: ProjectFolder,
    *,
    is_python: bool,
    mocks: Mocks,
    keeps: bool,
    output: bool | None,
    message: str,
) -> None:
    if is_python:
        project.write("tools/key.py", PYTHON)
    else:
        project.tool("key", KEY, vault="[{key: k, scope_kinds: [profile]}]")
    async with project.opened() as runtime:
        await vault_of(runtime).set(LOCAL_SCOPE, "k", "of-the-project")
    envelope = await tried(project, "key", {}, mocks, keeps=keeps)
    assert envelope.output is output
    if message:
        assert envelope.error is not None
        assert envelope.error.code == "VAULT_NOT_FOUND"
        assert message in envelope.error.message
    async with project.opened() as runtime:
        assert await vault_of(runtime).get(LOCAL_SCOPE, "k") == "of-the-project"


async def test_a_shared_secret_missing_in_the_mocks_is_named_with_its_path(
    project: ProjectFolder,
) -> None:
    project.tool("world", WORLD, vault="[{key: k, scope_kinds: [profile, shared]}]")
    envelope = await tried(project, "world", {}, Mocks(has_vault=True, secrets={"k": "s3cret"}))
    assert envelope.error
    assert envelope.error.code == "VAULT_NOT_FOUND"
    assert "write it as vault.shared.team.k into" in envelope.error.message


async def test_the_state_starts_from_the_mocks_and_can_be_read_back(
    project: ProjectFolder,
) -> None:
    """For the other kinds, any one `scope_id` means the local scope."""
    project.tool("count", COUNT, state=STATE)
    entry = {"value": 4, "revision": "r4", "expires_at": "2999-01-01T00:00:00Z"}
    over = {"value": 0, "revision": "r0", "expires_at": "2001-01-01T00:00:00Z"}
    mocks = Mocks(state={ScopeKind.SESSION: {"any": {"count.n": entry, "count.old": over}}})
    settings, loaded = load_for_trial(project.root, {})
    async with open_trial(settings, loaded, TrialPlan(tool_id="count", mocks=mocks)) as trial:
        await trial.runtime.start_call(NewCall(tool_id="count", input={}), task_id=trial.task_id)
        reply = await trial.runtime.requests.wait(trial.task_id)
        after = await trial.state()
    assert reply
    assert reply.envelope
    assert (reply.envelope.output["value"], reply.envelope.output["revision"]) == (4, "r4")
    assert values(after) == {
        "session": {"any": {"count.n": 5}},
        "shared": {"everyone": {"all.n": [1]}},
    }


def values(state: Any) -> Any:
    """Return the values without their metadata."""
    return {
        kind: {
            name: {key: each["value"] for key, each in all_.items()}
            for name, all_ in scopes.items()
        }
        for kind, scopes in state.items()
    }


async def test_a_tool_on_trial_needs_no_direct_call_and_leaves_nothing(
    project: ProjectFolder,
) -> None:
    """The tool runs as the root direct call without needing `direct_call: true`."""
    project.tool("quiet", "export const run = () => 1;", direct_call="false")
    assert (await tried(project, "quiet", {}, Mocks())).output == 1
    assert not (project.root / ".penstock").exists()


@pytest.mark.slow("opens two stores, twice")
async def test_the_project_s_store_is_used_on_request(project: ProjectFolder) -> None:
    project.tool(
        "count", COUNT.replace("session", "profile"), state=STATE.replace("session", "profile")
    )
    for expected in (None, 1):
        settings, loaded = load_for_trial(project.root, {})
        plan = TrialPlan(tool_id="count", keeps=True)
        async with open_trial(settings, loaded, plan) as trial:
            await trial.runtime.start_call(
                NewCall(tool_id="count", input={}), task_id=trial.task_id
            )
            reply = await trial.runtime.requests.wait(trial.task_id)
        assert reply
        assert reply.envelope
        output = reply.envelope.output
        assert (output and output["value"]) == expected
