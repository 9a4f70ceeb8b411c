"""The task that a message belongs to."""

import pytest

from penstock.core.errors import NotFound
from penstock.core.ids import MessageId, ProfileId
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.server.routes.message_task import find_task_messages
from tests.kit.server import served


async def test_a_message_leads_to_its_task() -> None:
    async with served() as server:
        both = (await server.say("Hi")).json()
        site = server.app.state.lifecycle.site
        for message in (both["userMessage"], both["assistantMessage"]):
            task_messages = await find_task_messages(
                site, LOCAL_PROFILE, "assistant", MessageId(message["id"])
            )
            assert task_messages.task.task_id == message["metadata"]["taskId"]
        stranger = Profile(profile_id=ProfileId("bob"))
        for profile, agent in ((stranger, "assistant"), (LOCAL_PROFILE, "other")):
            with pytest.raises(NotFound):
                await find_task_messages(site, profile, agent, MessageId(both["userMessage"]["id"]))
