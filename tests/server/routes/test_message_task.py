"""The task that a message belongs to."""

import pytest

from penstock.core.errors import NotFound
from penstock.core.ids import MessageId, ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.routes.message_task import find_task_messages
from tests.kit.server import served
from tests.kit.tools import Act, Gate


async def test_a_message_leads_to_its_task() -> None:
    async with served() as server:
        both = (await server.say("Hi")).json()
        context = server.app.state.lifecycle.context
        for message in (both["userMessage"], both["assistantMessage"]):
            task_messages = await find_task_messages(
                context, LOCAL_PROFILE, "assistant", MessageId(message["id"])
            )
            assert task_messages.task.task_id == message["metadata"]["taskId"]
        stranger = Profile(profile_id=ProfileId("bob"))
        for profile, agent in ((stranger, "assistant"), (LOCAL_PROFILE, "other")):
            with pytest.raises(NotFound):
                await find_task_messages(
                    context, profile, agent, MessageId(both["userMessage"]["id"])
                )


async def test_an_answer_that_takes_longer_than_a_request_may_is_202_with_how_the_task_stands() -> (
    None
):
    gate = Gate()
    model = ScriptedModel([call("slow"), say("Done.")])
    limits = Limits(request_wait_seconds=0)
    async with served(model=model, tools=[Act("slow", gate)], limits=limits) as server:
        response = await server.say("Go")
        assert response.status_code == 202
        assert response.json() == {
            "taskId": response.headers["x-task-id"],
            "conversationId": response.headers["x-conversation-id"],
            "status": response.json()["status"],
        }
        assert response.json()["status"] in {"queued", "running"}
        gate.open()
        reply = await server.runtime.wait(response.headers["x-task-id"])
        assert reply is not None
