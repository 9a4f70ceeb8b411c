"""A subagent of a chat: what the chat shows of it, and what a crash leaves."""

from penstock.builtins.ask_user import TOOLS as ASK_USER
from penstock.builtins.subagent import TOOLS as SUBAGENT
from penstock.core.ids import LogId, SessionId
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from tests.kit.flows import finish, worker
from tests.kit.server import CHAT, InMemoryServer, frames, served
from tests.kit.tools import Act

LOOKER = worker("looker", tools=("look",))
SHOWN = ["tool_call", "tool_result", "content_delta", "content_reset", "thinking"]


def looking() -> ScriptedModel:
    """A chat that has an agent look, which looks once."""
    inner = [say("Inside.") + call("look", n=1), finish("seen")]
    outer = [
        call("subagent", agent="looker", task="Look around"),
        say("It saw."),
        say("Nothing."),
    ]

    def answer(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return (inner if is_session else outer).pop(0)

    return ScriptedModel(answer)


async def looked(server: InMemoryServer) -> tuple[str, list[tuple[str, object]]]:
    """Have the chat do its work; returns the conversation, and what its stream showed."""
    stream = await server.stream("Go")
    every = [frame for _, frame in frames(stream.text)]
    session = next(each["conversationId"] for each in every if "conversationId" in each)
    shown = [each for each in every if each["type"] in SHOWN]
    return session, [
        (each["type"], each.get("name", each.get("delta", each.get("iteration")))) for each in shown
    ]


async def test_the_stream_shows_the_call_and_not_the_work_of_the_subagent() -> None:
    """T18: own transcript: the agent's messages are not in the chat's."""
    items = [
        ("thinking", 1),
        ("tool_call", "subagent"),
        ("tool_result", "subagent"),
        ("thinking", 2),
        ("content_delta", "It saw."),
    ]
    look = Act("look")
    async with served(model=looking(), tools=[*SUBAGENT, look], agents=[LOOKER]) as server:
        session, shown = await looked(server)
        again = await server.follow(session)
        assert shown == items
        assert look.runs == [{"n": 1}]
        whole = frames(again.text)[-1][1]
        assert whole["type"] == "message_complete"
        assert [each["name"] for each in whole["toolCalls"]] == ["subagent"]
        assert [each["name"] for each in whole["toolResults"]] == ["subagent"]


async def test_the_history_has_only_the_messages_of_the_chat() -> None:
    async with served(model=looking(), tools=[*SUBAGENT, Act("look")], agents=[LOOKER]) as server:
        session, _ = await looked(server)
        response = await server.client.get(CHAT, params={"conversationId": session, "view": "full"})
        messages = response.json()["messages"]
        assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant"]
        assert [each["name"] for each in messages[1]["toolCalls"]] == ["subagent"]
        assert "Inside." not in response.text


async def test_erasing_an_answer_erases_the_transcript_of_its_subagent() -> None:
    async with served(model=looking(), tools=[*SUBAGENT, Act("look")], agents=[LOOKER]) as server:
        session, _ = await looked(server)
        history = await server.client.get(CHAT, params={"conversationId": session})
        last = history.json()["messages"][-1]["id"]
        gone = await server.client.delete(f"{CHAT}/messages/{last}")
        assert gone.is_success, gone.text
        records = await server.runtime.parts.storage.log.read(LogId(session))
        left = " ".join(str(each.event) for each in records)
        assert "Look around" not in left
        assert "Inside." not in left
        follows = await server.say("And now?", conversationId=session)
        assert follows.is_success, follows.text


async def test_a_question_of_an_agent_is_shown_and_answered_in_the_chat() -> None:
    inner = [call("ask_user", question="Which?", type="input"), finish("asked")]
    outer = [call("subagent", agent="looker", task="Ask"), say("Red it is.")]

    def answer(request: ModelRequest) -> ScriptedReply:
        is_session = any(tool.name == "finish" for tool in request.tools)
        return (inner if is_session else outer).pop(0)

    tools = [*SUBAGENT, *ASK_USER]
    async with served(model=ScriptedModel(answer), tools=tools, agents=[LOOKER]) as server:
        asked = [frame for _, frame in frames((await server.stream("Go")).text)]
        (question,) = [each for each in asked if each["type"] == "question"]
        assert (question["text"], question["path"][0]) == ("Which?", "subagent")
        assert "toolCallId" not in question
        session = SessionId(asked[0]["conversationId"])
        rest = await server.stream("red", conversationId=session)
        assert frames(rest.text)[-1][1]["content"] == "Red it is."
