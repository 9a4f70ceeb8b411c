"""Conversations over HTTP: lists, histories, what goes."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from penstock.agents.agent import Agent
from penstock.agents.settings import ChatSettings
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.database import open_database
from tests.acting import Act
from tests.serving import CHAT, House, served


async def names(house: House, **query: Any) -> list[str]:
    """Return the titles of the conversations that are listed."""
    response = await house.client.get(f"{CHAT}/conversations", params=query)
    return [each["title"] for each in response.json()["conversations"]]


async def history(house: House, **query: Any) -> list[str]:
    """Return what the messages of a page say."""
    messages = (await house.client.get(CHAT, params=query)).json()["messages"]
    return [each["content"] for each in messages]


async def test_conversations_are_listed_newest_first() -> None:
    async with served() as house:
        for title in ("One", "Two", "Three"):
            await house.say(title)
        assert await names(house) == ["Three", "Two", "One"]
        assert await names(house, limit=1, offset=1) == ["Two"]
        assert await names(house, search="t") == ["Three", "Two"]
        response = await house.client.get(f"{CHAT}/conversations", params={"limit": 2})
        assert response.json()["meta"] == {"total": 3, "limit": 2, "offset": 0}
        newest = response.json()["conversations"][0]
        assert (newest["messageCount"], newest["status"]) == (2, "succeeded")


async def test_a_conversation_can_be_begun_without_a_word() -> None:
    async with served() as house:
        begun = await house.client.post(f"{CHAT}/conversations", json={"title": " A  plan "})
        assert begun.status_code == 201
        assert (begun.json()["title"], begun.json()["messageCount"]) == ("A plan", 0)
        assert begun.json()["status"] is None
        bare = await house.client.post(f"{CHAT}/conversations")
        assert bare.json()["title"] == "New conversation"


async def test_a_title_is_the_beginning_of_the_first_message() -> None:
    async with served() as house:
        await house.say("x" * 70)
        assert [len(title) for title in await names(house)] == [60]


async def test_a_history_comes_page_by_page() -> None:
    async with served() as house:
        first = await house.say("1")
        name = first.headers["x-conversation-id"]
        for text in ("2", "3"):
            await house.say(text, conversationId=name)
        newest = (await house.client.get(CHAT, params={"limit": 3})).json()
        assert [each["content"] for each in newest["messages"]] == ["Hello.", "3", "Hello."]
        assert newest["meta"] == {"total": 6, "limit": 3, "hasMore": True}
        assert newest["conversationId"] == name
        before = newest["messages"][0]["id"]
        older = (await house.client.get(CHAT, params={"before": before})).json()
        assert [each["content"] for each in older["messages"]] == ["1", "Hello.", "2"]
        assert older["meta"]["hasMore"] is False
        assert await history(house, search="HELLO") == ["Hello."] * 3


async def test_a_history_as_the_model_saw_it() -> None:
    """The transcript has exactly these keys for calls and results."""
    model = ScriptedModel([call("add", a=1) + say("Let me see."), say("Three.")])
    async with served(model=model, tools=[Act("add")]) as house:
        await house.say("Sum?")
        full = (await house.client.get(CHAT, params={"view": "full"})).json()["messages"]
        user, asked, told, final = full
        assert (user["content"], final["content"]) == ("Sum?", "Three.")
        identity = asked["toolCalls"][0]["id"]
        assert asked == {
            "role": "assistant",
            "content": "Let me see.",
            "toolCalls": [{"id": identity, "name": "add", "arguments": {"a": 1}}],
        }
        assert told == {"role": "tool", "toolCallId": identity, "content": '{"done":"add"}'}
        (_, answer) = (await house.client.get(CHAT)).json()["messages"]
        assert answer["toolCalls"] == asked["toolCalls"]
        assert answer["toolResults"][0]["result"] == {"done": "add"}
        assert answer["metadata"]["usage"]["toolCalls"] == 1


async def test_a_history_that_is_not_there() -> None:
    async with served() as house:
        empty = (await house.client.get(CHAT)).json()
        assert (empty["messages"], empty["conversationId"]) == ([], None)
        wanted = {"conversationId": "conv_none"}
        assert (await house.client.get(CHAT, params=wanted)).status_code == 404
        await house.say("Hi")
        assert (await house.client.get(CHAT, params={"before": "msg_x"})).status_code == 404


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"view": "odd"}, {"search": "x" * 201}]
)
async def test_a_query_that_cannot_be_read(query: dict[str, Any]) -> None:
    async with served() as house:
        response = await house.client.get(CHAT, params=query)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert response.json()["error"]["details"][0]["field"] == f"/{next(iter(query))}"


async def test_a_conversation_is_deleted() -> None:
    async with served() as house:
        kept = await house.say("Keep")
        gone = await house.say("Go")
        name = gone.headers["x-conversation-id"]
        assert (await house.client.delete(f"{CHAT}/conversations/{name}")).status_code == 204
        assert await names(house) == ["Keep"]
        assert (await house.client.delete(f"{CHAT}/conversations/{name}")).status_code == 404
        task = await house.client.get(f"/api/tasks/{gone.headers['x-task-id']}")
        assert task.status_code == 404
        assert await history(house, conversationId=kept.headers["x-conversation-id"])


async def test_a_conversation_is_deleted_while_it_waits() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as house:
        parked = (await house.say("Mail")).json()
        url = f"{CHAT}/conversations/{parked['conversationId']}"
        assert (await house.client.delete(url)).status_code == 204
        assert (await house.client.get("/api/questions")).json()["questions"] == []


async def test_all_conversations_are_deleted() -> None:
    async with served() as house:
        for text in ("One", "Two"):
            await house.say(text)
        assert (await house.client.delete(CHAT)).status_code == 204
        assert await names(house) == []


async def test_an_answer_is_erased_with_what_its_tools_said() -> None:
    model = ScriptedModel([call("add", a=1), say("A secret."), say("Ok.")])
    async with served(model=model, tools=[Act("add")]) as house:
        first = (await house.say("Sum?")).json()
        name = first["userMessage"]["conversationId"]
        url = f"{CHAT}/messages/{first['assistantMessage']['id']}"
        assert (await house.client.delete(url)).status_code == 204
        assert await history(house) == ["Sum?"]
        assert (await house.client.get(CHAT)).json()["meta"]["total"] == 1
        await house.say("And?", conversationId=name)
        seen = [each.content for each in model.requests[-1].messages]
        assert seen == ["Sum?", "And?"]
        assert (await house.client.delete(url)).status_code == 404


async def test_a_user_message_is_erased_alone() -> None:
    async with served() as house:
        first = (await house.say("My secret")).json()
        url = f"{CHAT}/messages/{first['userMessage']['id']}"
        assert (await house.client.delete(url)).status_code == 204
        assert await history(house) == ["Hello."]
        assert await names(house) == ["New conversation"]
        task = first["userMessage"]["metadata"]["taskId"]
        events = (await house.client.get(f"/api/tasks/{task}/events")).text
        assert "secret" not in events


async def test_an_erased_message_takes_its_earlier_answers_to_no_history() -> None:
    """A superseded answer stays out, and the text goes from every task that had it."""
    model = ScriptedModel([say("One."), say("Two."), say("Three."), say("Four.")])
    async with served(model=model) as house:
        said = await house.say("My secret")
        message = said.json()["userMessage"]
        url, name = f"{CHAT}/messages/{message['id']}", message["conversationId"]
        for _ in range(2):
            again = await house.client.post(f"{url}/regenerate")
            assert again.status_code == 200
        assert (await house.client.delete(url)).status_code == 204
        assert await history(house) == ["Three."]
        records = await house.runtime.parts.log.read(name)
        assert "secret" not in "".join(str(each.event) for each in records)
        assert (await house.client.get(CHAT)).json()["meta"]["total"] == 1
        await house.say("And?", conversationId=name)
        assert [each.content for each in model.requests[-1].messages] == ["Three.", "And?"]
        assert await history(house) == ["Three.", "And?", "Four."]


async def test_a_message_of_a_task_at_work_is_not_erased() -> None:
    model = ScriptedModel([call("mail")])
    async with served(model=model, tools=[Act("mail", requires_approval=True)]) as house:
        parked = (await house.say("Mail")).json()
        response = await house.client.delete(f"{CHAT}/messages/{parked['userMessage']['id']}")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "CONVERSATION_BUSY")


async def test_models_are_listed() -> None:
    async with served() as house:
        body = (await house.client.get(f"{CHAT}/models")).json()
    assert body["default"] == "scripted"
    assert [each["id"] for each in body["models"]] == ["scripted", "offline"]
    assert body["models"][0]["available"] is True


async def test_tools_are_listed_as_they_are_offered() -> None:
    """`GET /api/agents/{id}/chat/tools` gives name, description, parameters."""
    agents = [
        Agent("picky", settings=ChatSettings(enabled_tools=("add",))),
        Agent("none", settings=ChatSettings(tools_enabled=False)),
    ]
    async with served(tools=[Act("add"), Act("mail")], agents=agents) as house:
        shown = {}
        for agent in ("assistant", "picky", "none"):
            response = await house.client.get(f"/api/agents/{agent}/chat/tools")
            shown[agent] = [each["name"] for each in response.json()["tools"]]
        assert shown == {"assistant": ["add", "mail"], "picky": ["add"], "none": []}
        both = await house.client.get("/api/agents/picky/chat/tools", params={"all": True})
        assert [(each["name"], each["enabled"]) for each in both.json()["tools"]] == [
            ("add", True),
            ("mail", False),
        ]
        assert both.json()["tools"][0]["description"] == "Does add."
        assert both.json()["tools"][0]["parameters"] == {"type": "object"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("GET", "/models"), ("GET", "/tools"), ("GET", "/conversations"),
     ("POST", "/conversations"), ("DELETE", "/conversations/c"), ("DELETE", "/messages/m")],
)  # fmt: skip
async def test_an_agent_that_is_not_there(method: str, path: str) -> None:
    async with served() as house:
        response = await house.client.request(method, f"/api/agents/asistant/chat{path}")
    assert response.status_code == 404
    assert "Did you mean 'assistant'?" in response.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_with_a_broken_row_says_so_at_once_and_can_be_deleted(
    tmp_path: Path, stream: bool
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with served(url=url) as house:
        conversation = (await house.say("One")).headers["x-conversation-id"]
    database = await open_database(url)
    await database.write(
        lambda each: each.execute(text("UPDATE events SET body = '{bro' WHERE seq = 4"))
    )
    await database.close()
    async with served(url=url) as house:
        refused = await house.say("Two", conversationId=conversation, stream=stream)
        assert refused.status_code == 503
        assert f"event 4 of log '{conversation}' does not read back" in refused.text
        assert "delete this conversation" in refused.text
        deleted = await house.client.delete(f"{CHAT}/conversations/{conversation}")
        assert deleted.status_code == 204, deleted.text
        assert await names(house) == []
        assert (await house.say("Three")).status_code == 200
