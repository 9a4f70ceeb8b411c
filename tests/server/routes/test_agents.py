"""Agents over HTTP."""

from pathlib import Path

import httpx2
import pytest

from penstock.accounts.keys import Keys
from penstock.agents.agent import Agent, ChatSettings
from penstock.core.clock import Moment
from penstock.core.errors import InvalidRequest
from penstock.manifest.bundle import load_bundle
from penstock.manifest.permissions import PermissionCatalog, unknown_permissions
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from penstock.store.database import open_database
from penstock.testing.clock import FakeClock
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.project import ProjectFolder
from tests.kit.server import HERE, served
from tests.kit.tools import Act, calling

POET = Agent(
    "poet",
    description="Writes verse.",
    instructions="Rhyme.",
    model="offline",
    settings=ChatSettings(max_iterations=3, enabled_tools=("add",)),
)


async def test_agents_are_listed_by_name() -> None:
    async with served(agents=[POET]) as server:
        listed = (await server.client.get("/api/agents")).json()
        assert [each["id"] for each in listed["agents"]] == ["assistant", "poet"]
        assert listed["meta"] == {"total": 2, "limit": 50, "offset": 0}
        body = (await server.client.get("/api/agents", params={"search": "VERSE"})).json()
        assert [each["id"] for each in body["agents"]] == ["poet"]
        second = (await server.client.get("/api/agents", params={"offset": 1})).json()
        assert [each["id"] for each in second["agents"]] == ["poet"]
        last = (await server.client.get("/api/agents", params={"order": "desc"})).json()
        assert [each["id"] for each in last["agents"]] == ["poet", "assistant"]
        refused = await server.client.get("/api/agents", params={"sort": "created_at"})
        assert refused.status_code == 422


async def test_an_agent_is_read_with_its_instructions_and_settings() -> None:
    async with served(agents=[POET]) as server:
        poet = (await server.client.get("/api/agents/poet")).json()
    assert (poet["name"], poet["model"], poet["instructions"]) == ("poet", "offline", "Rhyme.")
    assert poet["settings"]["max_iterations"] == 3


async def test_settings_show_which_differ_from_the_defaults() -> None:
    async with served(agents=[POET]) as server:
        shown = (await server.client.get("/api/agents/poet/settings")).json()
    assert shown["settings"]["enabled_tools"] == ["add"]
    assert shown["settings"]["loop_window"] == 10
    assert shown["overridden"] == ["enabled_tools", "max_iterations"]


async def test_an_unknown_agent_is_refused_with_the_nearest() -> None:
    async with served(agents=[POET]) as server:
        for path in ("/api/agents/poe", "/api/agents/poe/settings"):
            response = await server.client.get(path)
            assert response.status_code == 404
            assert "Did you mean 'poet'?" in response.json()["error"]["message"]


METRICS = "/api/agents/assistant/tools/metrics"


async def test_a_known_run_is_counted() -> None:
    """Metrics after a known run: frequency, success and failure, times, tokens."""
    model = ScriptedModel([call("outer", a=1) + call("nope"), say("Done.")])
    tools = [Act("outer", calling("inner")), Act("inner", direct_call=True)]
    async with served(model=model, tools=tools) as server:
        await server.say("Go")
        body = {
            metric["tool"]: metric
            for metric in (await server.client.get(METRICS)).json()["metrics"]
        }
        assert (body["outer"]["calls"], body["inner"]["calls"]) == (1, 1)
        assert body["nope"]["errors"] == {"TOOL_NOT_FOUND": 1}
        assert body["outer"]["successRate"] == 1
        assert body["outer"]["tokens"]["arguments"] == 2
        assert body["inner"]["tokens"]["definitions"] > 0
        one = (await server.client.get(METRICS, params={"tool": "outer"})).json()
        assert [each["tool"] for each in one["metrics"]] == ["outer"]
        assert [each["usage"]["modelCalls"] for each in one["models"]] == [2]


async def test_notes_and_state_of_a_tool_are_no_tools() -> None:
    @tool(effect="read")
    async def noting(ctx: ToolContext) -> str:
        """Keep a note of what was seen."""
        ctx.emit("seen", "A note.")
        await ctx.state.put("seen", 1)
        return str(await ctx.state.get("seen"))

    model = ScriptedModel([call("noting"), say("Done.")])
    async with served(model=model, tools=[noting]) as server:
        await server.say("Go")
        body = (await server.client.get(METRICS)).json()["metrics"]
    assert [(each["tool"], each["calls"], each["succeeded"]) for each in body] == [("noting", 1, 1)]


async def test_metrics_count_only_calls_of_the_period() -> None:
    clock = FakeClock()
    model = ScriptedModel({"": [call("add"), say("Done.")]})
    async with served(model=model, tools=[Act("add")], clock=clock) as server:
        await server.say("Go")
        assert (await server.client.get(METRICS)).json()["metrics"]
        clock.advance(8 * 86_400)
        later = (await server.client.get(METRICS)).json()
        assert later["metrics"] == []
        assert later["meta"]["from"] < later["meta"]["to"]
        ever = await server.client.get(METRICS, params={"from": "2000-01-01T00:00:00Z"})
        assert ever.json()["metrics"]
        for odd in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"):
            assert (await server.client.get(METRICS, params={"to": odd})).status_code == 200
        bad = await server.client.get(METRICS, params={"from": "yesterday"})
        assert bad.json()["error"]["code"] == "BAD_REQUEST"
        assert (await server.client.get("/api/agents/missing/tools/metrics")).status_code == 404


async def test_metrics_default_to_the_last_week() -> None:
    clock = FakeClock()
    model = ScriptedModel({"": [call("add"), say("Done.")]})
    async with served(model=model, tools=[Act("add")], clock=clock) as server:
        await server.say("Go")
        clock.advance(7 * 86_400 - 1)
        assert (await server.client.get(METRICS)).json()["metrics"]
        clock.advance(2)
        assert (await server.client.get(METRICS)).json()["metrics"] == []


CATALOG = """
catalog_id: desk
version: "2"
groups:
  - group_id: mail
    name: Mail
    permissions:
      - {permission_id: mail.send, name: Send mail, description: To anybody.}
"""


def catalog_of(folder: Path) -> PermissionCatalog:
    (folder / "all.permissions.yaml").write_text(CATALOG)
    permissions = load_bundle(folder).permissions
    assert permissions
    return permissions


@pytest.mark.parametrize(("text", "catalog_id"), [(None, None), (CATALOG, "desk")])
async def test_the_catalog_is_read(
    project: ProjectFolder, text: str | None, catalog_id: str | None
) -> None:
    if text is not None:
        project.write("all.permissions.yaml", text)
    async with project.opened() as runtime:
        transport = httpx2.ASGITransport(app=create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            shown = (await client.get("/api/permissions")).json()
    assert shown["catalogId"] == catalog_id
    sent = {"permissionId": "mail.send", "name": "Send mail", "description": "To anybody."}
    groups = [{"groupId": "mail", "name": "Mail", "description": None, "permissions": [sent]}]
    assert shown["groups"] == (groups if text else [])


def test_without_a_catalog_every_permission_is_valid(tmp_path: Path) -> None:
    assert unknown_permissions(["fly"], None) == ()
    catalog = catalog_of(tmp_path)
    asked = ["fly", "mail.send", "admin", "vault.write", "project.read", "project.bash"]
    assert unknown_permissions(asked, catalog) == ("fly",)


async def test_a_key_cannot_get_a_permission_outside_of_the_catalog(tmp_path: Path) -> None:
    """With a catalog, `keys create --permission` with such an id: refused, with the nearest."""
    database = await open_database("sqlite://")
    keys = Keys(database, FakeClock(), catalog=catalog_of(tmp_path))
    with pytest.raises(InvalidRequest) as refused:
        await keys.create("ann", permissions=["chat", "mail.sent"])
    await database.close()
    (problem,) = refused.value.problems
    assert problem == {
        "field": "/permissions",
        "issue": "'mail.sent' is not in all.permissions.yaml. Did you mean 'mail.send'?",
    }


async def test_a_permission_that_left_the_catalog_is_stored_without_effect(tmp_path: Path) -> None:
    """A grant whose id left the catalog is kept, shown as stale, counts for nothing."""
    database = await open_database("sqlite://")
    clock = FakeClock(Moment(0))
    key = await Keys(database, clock).create("ann", permissions=["chat", "old"])
    keys = Keys(database, clock, catalog=catalog_of(tmp_path))
    (listed,) = await keys.list()
    profile = await keys.profile(key)
    await database.close()
    assert (listed.permissions, listed.stale) == (("chat", "old"), ("old",))
    assert profile.permissions == {"chat"}


async def test_the_schema_of_a_typed_output_is_shown() -> None:
    agents = [Agent("counter", output=int | list[int]), POET]
    async with served(agents=agents) as server:
        listed = (await server.client.get("/api/agents", params={"search": "counter"})).json()
        one = (await server.client.get("/api/agents/counter")).json()
        poet = (await server.client.get("/api/agents/poet")).json()
    schema = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}
    assert listed["agents"][0]["outputSchema"] == one["outputSchema"] == schema
    assert "outputSchema" not in poet
