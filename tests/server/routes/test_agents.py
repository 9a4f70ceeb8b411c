"""Agents over HTTP."""

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from tests.kit.server import served

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
        found = (await server.client.get("/api/agents", params={"search": "VERSE"})).json()
        assert [each["id"] for each in found["agents"]] == ["poet"]
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


async def test_every_setting_is_shown_and_which_are_not_the_defaults() -> None:
    async with served(agents=[POET]) as server:
        shown = (await server.client.get("/api/agents/poet/settings")).json()
    assert shown["settings"]["enabled_tools"] == ["add"]
    assert shown["settings"]["loop_window"] == 10
    assert shown["overridden"] == ["enabled_tools", "max_iterations"]


async def test_an_agent_that_is_not_there_comes_with_the_nearest() -> None:
    async with served(agents=[POET]) as server:
        for path in ("/api/agents/poe", "/api/agents/poe/settings"):
            response = await server.client.get(path)
            assert response.status_code == 404
            assert "Did you mean 'poet'?" in response.json()["error"]["message"]
