"""Conversations over HTTP: lists, histories, deletion."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from penstock.agents.agent import Agent, ChatSettings
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.database import open_database
from tests.kit.server import CHAT, InMemoryServer, served
from tests.kit.tools import Act


async def names(server: InMemoryServer, **query: Any) -> list[str]:
    """Return the titles of the listed conversations."""
    response = await server.client.get(f"{CHAT}/conversations", params=query)
    return [each["title"] for each in response.json()["conversations"]]


async def history(server: InMemoryServer, **query: Any) -> list[str]:
    """Return the contents of the messages of a page."""
    messages = (await server.client.get(CHAT, params=query)).json()["messages"]
    return [each["content"] for each in messages]


async def test_conversations_are_listed_newest_first() -> None:
    async with served() as server:
        for title in ("One", "Two", "Three"):
            await server.say(title)
        assert await names(server) == ["Three", "Two", "One"]
        assert await names(server, limit=1, offset=1) == ["Two"]
        assert await names(server, search="t") == ["Three", "Two"]
        response = await server.client.get(f"{CHAT}/conversations", params={"limit": 2})
        assert response.json()["meta"] == {"total": 3, "limit": 2, "offset": 0}
        newest = response.json()["conversations"][0]
        assert (newest["messageCount"], newest["status"]) == (2, "succeeded")


async def test_conversations_have_the_requested_order() -> None:
    async with served() as house:
        for title in ("b", "C", "a"):
            await house.say(title)
        assert await names(house, sort="title") == ["a", "b", "C"]
        assert await names(house, sort="title", order="desc", limit=2) == ["C", "b"]
        assert await names(house, sort="createdAt", order="asc") == ["b", "C", "a"]
        refused = await house.client.get(f"{CHAT}/conversations", params={"sort": "status"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    issue = "must be one of: updatedAt, createdAt, title; found 'status'"
    assert refused.json()["error"]["details"] == [{"field": "/sort", "issue": issue}]


async def test_a_conversation_can_be_created_empty() -> None:
    async with served() as server:
        started = await server.client.post(f"{CHAT}/conversations", json={"title": " A  plan "})
        assert started.status_code == 201
        assert (started.json()["title"], started.json()["messageCount"]) == ("A plan", 0)
        assert started.json()["status"] is None
        bare = await server.client.post(f"{CHAT}/conversations")
        assert bare.json()["title"] == "New conversation"


async def test_a_title_is_the_start_of_the_first_message() -> None:
    async with served() as server:
        await server.say("x" * 70)
        assert [len(title) for title in await names(server)] == [60]


async def test_a_history_is_read_page_by_page() -> None:
    async with served() as server:
        first = await server.say("1")
        name = first.headers["x-conversation-id"]
        for text in ("2", "3"):
            await server.say(text, conversationId=name)
        newest = (await server.client.get(CHAT, params={"limit": 3})).json()
        assert [each["content"] for each in newest["messages"]] == ["Hello.", "3", "Hello."]
        assert newest["meta"] == {"total": 6, "limit": 3, "hasMore": True}
        assert newest["conversationId"] == name
        before = newest["messages"][0]["id"]
        older = (await server.client.get(CHAT, params={"before": before})).json()
        assert [each["content"] for each in older["messages"]] == ["1", "Hello.", "2"]
        assert older["meta"]["hasMore"] is False
        assert await history(server, search="HELLO") == ["Hello."] * 3


async def test_a_history_can_be_that_of_the_model() -> None:
    """The transcript has exactly these keys for calls and results."""
    model = ScriptedModel([call("add", a=1) + say("Let me see."), say("Three.")])
    async with served(model=model, tools=[Act("add")]) as server:
        await server.say("Sum?")
        full = (await server.client.get(CHAT, params={"view": "full"})).json()["messages"]
        user, asked, result, final = full
        assert (user["content"], final["content"]) == ("Sum?", "Three.")
        identity = asked["toolCalls"][0]["id"]
        assert asked == {
            "role": "assistant",
            "content": "Let me see.",
            "toolCalls": [{"id": identity, "name": "add", "arguments": {"a": 1}}],
        }
        assert result == {"role": "tool", "toolCallId": identity, "content": '{"done":"add"}'}
        (_, answer) = (await server.client.get(CHAT)).json()["messages"]
        assert answer["toolCalls"] == asked["toolCalls"]
        assert answer["toolResults"][0]["result"] == {"done": "add"}
        assert answer["metadata"]["usage"]["toolCalls"] == 1


async def test_a_missing_history_is_not_found() -> None:
    async with served() as server:
        empty = (await server.client.get(CHAT)).json()
        assert (empty["messages"], empty["conversationId"]) == ([], None)
        fields = {"conversationId": "conv_none"}
        assert (await server.client.get(CHAT, params=fields)).status_code == 404
        await server.say("Hi")
        assert (await server.client.get(CHAT, params={"before": "msg_x"})).status_code == 404


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"view": "odd"}, {"search": "x" * 201}]
)
async def test_an_invalid_query_is_refused(query: dict[str, Any]) -> None:
    async with served() as server:
        response = await server.client.get(CHAT, params=query)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert response.json()["error"]["details"][0]["field"] == f"/{next(iter(query))}"


async def test_a_conversation_is_deleted() -> None:
    async with served() as server:
        kept = await server.say("Keep")
        gone = await server.say("Go")
        name = gone.headers["x-conversation-id"]
        assert (await server.client.delete(f"{CHAT}/conversations/{name}")).status_code == 204
        assert await names(server) == ["Keep"]
        assert (await server.client.delete(f"{CHAT}/conversations/{name}")).status_code == 404
        task = await server.client.get(f"/api/tasks/{gone.headers['x-task-id']}")
        assert task.status_code == 404
        assert await history(server, conversationId=kept.headers["x-conversation-id"])


async def test_a_conversation_is_deleted_while_it_waits() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = (await server.say("Mail")).json()
        url = f"{CHAT}/conversations/{parked['conversationId']}"
        assert (await server.client.delete(url)).status_code == 204
        assert (await server.client.get("/api/questions")).json()["questions"] == []


async def test_all_conversations_are_deleted() -> None:
    async with served() as server:
        for text in ("One", "Two"):
            await server.say(text)
        assert (await server.client.delete(CHAT)).status_code == 204
        assert await names(server) == []


async def test_an_answer_is_erased_with_the_results_of_its_tools() -> None:
    model = ScriptedModel([call("add", a=1), say("A secret."), say("Ok.")])
    async with served(model=model, tools=[Act("add")]) as server:
        first = (await server.say("Sum?")).json()
        name = first["userMessage"]["conversationId"]
        url = f"{CHAT}/messages/{first['assistantMessage']['id']}"
        assert (await server.client.delete(url)).status_code == 204
        assert await history(server) == ["Sum?"]
        assert (await server.client.get(CHAT)).json()["meta"]["total"] == 1
        await server.say("And?", conversationId=name)
        seen = [each.content for each in model.requests[-1].messages]
        assert seen == ["Sum?", "And?"]
        assert (await server.client.delete(url)).status_code == 404


async def test_a_user_message_is_erased_without_its_reply() -> None:
    async with served() as server:
        first = (await server.say("My secret")).json()
        url = f"{CHAT}/messages/{first['userMessage']['id']}"
        assert (await server.client.delete(url)).status_code == 204
        assert await history(server) == ["Hello."]
        assert await names(server) == ["New conversation"]
        task = first["userMessage"]["metadata"]["taskId"]
        events = (await server.client.get(f"/api/tasks/{task}/events")).text
        assert "secret" not in events


async def test_erasing_a_message_brings_no_earlier_answer_back() -> None:
    """A superseded answer stays out, and the text goes from every task that had it."""
    model = ScriptedModel([say("One."), say("Two."), say("Three."), say("Four.")])
    async with served(model=model) as server:
        response = await server.say("My secret")
        message = response.json()["userMessage"]
        url, name = f"{CHAT}/messages/{message['id']}", message["conversationId"]
        for _ in range(2):
            again = await server.client.post(f"{url}/regenerate")
            assert again.status_code == 200
        assert (await server.client.delete(url)).status_code == 204
        assert await history(server) == ["Three."]
        records = await server.runtime.parts.storage.log.read(name)
        assert "secret" not in "".join(str(each.event) for each in records)
        assert (await server.client.get(CHAT)).json()["meta"]["total"] == 1
        await server.say("And?", conversationId=name)
        assert [each.content for each in model.requests[-1].messages] == ["Three.", "And?"]
        assert await history(server) == ["Three.", "And?", "Four."]


async def test_a_message_of_a_running_task_is_not_erased() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as server:
        parked = (await server.say("Mail")).json()
        response = await server.client.delete(f"{CHAT}/messages/{parked['userMessage']['id']}")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "CONVERSATION_BUSY")


async def test_models_are_listed() -> None:
    async with served() as server:
        body = (await server.client.get(f"{CHAT}/models")).json()
    assert body["default"] == "scripted"
    assert [each["id"] for each in body["models"]] == ["scripted", "offline"]
    assert body["models"][0]["available"] is True


async def test_tools_are_listed_as_they_are_offered() -> None:
    """`GET …/chat/tools`: name, description, parameters; "the nine in seed order", then by name."""
    agents = [
        Agent("picky", settings=ChatSettings(enabled_tools=("add",))),
        Agent("none", settings=ChatSettings(tools_enabled=False)),
    ]
    tools = [Act("mail"), Act("add"), Act("execute_workflow"), Act("browse_url")]
    async with served(tools=tools, agents=agents) as server:
        shown = {}
        for agent in ("assistant", "picky", "none"):
            response = await server.client.get(f"/api/agents/{agent}/chat/tools")
            shown[agent] = [each["name"] for each in response.json()["tools"]]
        nine = ["browse_url", "execute_workflow"]
        assert shown == {"assistant": [*nine, "add", "mail"], "picky": ["add"], "none": []}
        both = await server.client.get("/api/agents/picky/chat/tools", params={"all": True})
        listed = both.json()["tools"][len(nine) :]
        assert [(each["name"], each["enabled"]) for each in listed] == [
            ("add", True),
            ("mail", False),
        ]
        assert listed[0]["description"] == "Does add."
        assert listed[0]["parameters"] == {"type": "object"}


class Shelf:
    """A toolset."""

    def tools(self, ctx: Any) -> list[Any]:
        raise AssertionError("a list of tools asked a toolset")


async def test_toolsets_are_named_in_lists_of_tools_and_not_asked() -> None:
    agents = [Agent("clerk", tools=[Act("add"), Shelf()]), Agent("plain", tools=[Act("add")])]
    async with served(agents=agents) as server:
        for agent, toolsets in (("clerk", ["Shelf"]), ("plain", [])):
            body = (await server.client.get(f"/api/agents/{agent}/chat/tools")).json()
            assert [each["name"] for each in body["tools"]] == ["add"]
            assert body["toolsets"] == toolsets


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("GET", "/models"), ("GET", "/tools"), ("GET", "/conversations"),
     ("POST", "/conversations"), ("DELETE", "/conversations/c"), ("DELETE", "/messages/m"),
     ("POST", "/conversations/c/hand-back")],
)  # fmt: skip
async def test_an_unknown_agent_is_not_found(method: str, path: str) -> None:
    async with served() as server:
        response = await server.client.request(method, f"/api/agents/asistant/chat{path}")
    assert response.status_code == 404
    assert "Did you mean 'assistant'?" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_corrupt_conversation_is_reported_and_can_be_deleted(
    tmp_path: Path, stream: bool
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with served(url=url) as server:
        conversation = (await server.say("One")).headers["x-conversation-id"]
    database = await open_database(url)
    await database.write(
        lambda each: each.execute(text("UPDATE events SET body = '{bro' WHERE seq = 4"))
    )
    await database.close()
    async with served(url=url) as server:
        refused = await server.say("Two", conversationId=conversation, stream=stream)
        assert refused.status_code == 503
        assert f"event 4 of log '{conversation}' cannot be read" in refused.text
        assert "delete this conversation" in refused.text
        deleted = await server.client.delete(f"{CHAT}/conversations/{conversation}")
        assert deleted.status_code == 204, deleted.text
        assert await names(server) == []
        assert (await server.say("Three")).status_code == 200
