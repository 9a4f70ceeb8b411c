"""The context of a server: profiles, owners, links and look-ups."""

import pytest
from starlette.requests import Request

from penstock.app.settings_sections import ServerSection
from penstock.core.call_errors import NotAvailable
from penstock.core.errors import Forbidden, NotFound, NotReady, Unauthenticated
from penstock.core.ids import BlobId, LogId, MessageId, ProfileId, SessionId
from penstock.core.profile import ADMIN, LOCAL_PROFILE, Profile
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.context import (
    PROFILE,
    ServerContext,
    ServerLifecycle,
    admitted,
    allowed,
    find_task_messages,
    listed_for,
    owned,
)
from penstock.testing.runtime import memory_runtime
from tests.kit.server import served
from tests.kit.tools import Act, Gate

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({"read"}))
BOSS = Profile(profile_id=ProfileId("boss"), permissions=frozenset({ADMIN}))


GUEST = Profile(permissions=frozenset({"read"}), session_id=SessionId("conv_1"))


def asked_by(profile: Profile | None) -> Request:
    """Return a request of this profile."""
    return Request({"type": "http", "path": "/x", "headers": [], PROFILE: profile})


def test_a_route_requires_its_permission() -> None:
    assert allowed(asked_by(ANN), "read") is ANN
    assert allowed(asked_by(LOCAL_PROFILE), "anything") is LOCAL_PROFILE
    with pytest.raises(Forbidden, match="'chat'"):
        allowed(asked_by(ANN), "chat")
    with pytest.raises(Unauthenticated):
        allowed(asked_by(None), "read")


def test_objects_of_other_profiles_are_not_found() -> None:
    owned(ANN, ProfileId("ann"), "task 't'")
    owned(BOSS, ProfileId("ann"), "task 't'")
    with pytest.raises(NotFound, match="there is no task 't'"):
        owned(ANN, ProfileId("bob"), "task 't'")


def test_a_link_to_one_conversation_reaches_no_other_object() -> None:
    with pytest.raises(NotFound, match="cannot be reached with a link to one conversation"):
        allowed(asked_by(GUEST), "read")
    assert admitted(asked_by(GUEST), "read") is GUEST
    owned(GUEST, GUEST.profile_id, "task 't'", "conv_1")
    for other in ("conv_2", None):
        with pytest.raises(NotFound):
            owned(GUEST, GUEST.profile_id, "task 't'", other)


@pytest.mark.parametrize(
    ("profile", "named", "listed"),
    [
        (ANN, None, (ANN.profile_id, None)),
        (ANN, LogId("conv_2"), (ANN.profile_id, "conv_2")),
        (BOSS, None, (None, None)),
        (GUEST, None, (GUEST.profile_id, "conv_1")),
        (GUEST, LogId("conv_2"), (GUEST.profile_id, "conv_1")),
    ],
)
def test_a_list_has_objects_of_its_reader_only(
    profile: Profile, named: LogId | None, listed: tuple[str | None, str | None]
) -> None:
    assert listed_for(profile, named) == listed


async def test_a_server_has_a_context_from_opening_to_draining() -> None:
    lifecycle = ServerLifecycle()
    with pytest.raises(NotReady):
        lifecycle.get()
    async with memory_runtime() as runtime:
        lifecycle.context = context = ServerContext.build(runtime, lifecycle)
        assert lifecycle.get() is context
        assert not context.is_draining
        lifecycle.drain()
        assert context.is_draining
        with pytest.raises(NotReady):
            lifecycle.get()


async def test_a_runtime_in_memory_has_no_keys_and_no_lookups() -> None:
    async with memory_runtime() as runtime:
        context = ServerContext.build(runtime, ServerLifecycle())
        assert context.keys is None
        assert context.limits is runtime.parts.world.limits
        with pytest.raises(NotAvailable):
            context.kept  # noqa: B018  asking for it is what is refused


async def test_links_of_a_mounted_server_start_with_its_path() -> None:
    async with memory_runtime() as runtime:
        context = ServerContext.build(runtime, ServerLifecycle())
        stored = BlobId("blob_1")
        below, ends = context.below("/base"), context.links.end()
        assert below.links.to(stored, ends) == f"/base{context.links.to(stored, ends)}"
        assert below.runtime is runtime


async def test_a_message_is_resolved_to_its_task() -> None:
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


async def test_a_request_that_waits_too_long_gets_202_with_the_status() -> None:
    gate = Gate()
    model = ScriptedModel([call("slow"), say("Done.")])
    section = ServerSection(request_wait_seconds=0.001)
    async with served(server=section, model=model, tools=[Act("slow", gate)]) as server:
        response = await server.say("Go")
        assert response.status_code == 202
        assert response.json() == {
            "taskId": response.headers["x-task-id"],
            "conversationId": response.headers["x-conversation-id"],
            "status": response.json()["status"],
        }
        assert response.json()["status"] in {"queued", "running"}
        gate.open()
        reply = await server.runtime.requests.wait(response.headers["x-task-id"])
        assert reply is not None
