"""Conversations that continue from a snapshot: the model reads what it would have read."""

from typing import Any

from penstock.agents.agent import Agent
from penstock.chat.requests import NewMessage
from penstock.core.events.events import Entry, NoteEmitted
from penstock.core.ids import LogId, SessionId
from penstock.engine.cold_folds import ColdFolds
from penstock.engine.session_state import SNAPSHOT_EVENTS, fold
from penstock.engine.snapshot import fold_version, to_snapshot
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.store.logs.log import StoredState
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.long_logs import check_every_cut
from tests.kit.tools import Act

SAID = ["Look", "/help", "Bill me", "And again", "/new Start over", "Look once more"]


def model() -> ScriptedModel:
    """A model that looks, hands off what is about bills, and says how many messages it read."""

    def reply(request: ModelRequest) -> ScriptedReply:
        asked = request.messages[-1]
        if asked.content.startswith("Look"):
            return call("look", n=2**70)
        if asked.content.startswith("Bill") and "You triage." in request.system:
            return call("transfer_to_billing")
        return say(f"I read {len(request.messages)} messages.")

    return ScriptedModel(reply)


async def look(input: Any, invocation: Any) -> str:
    return "x" * 300


class Talk:
    """A conversation that each message finds in another process."""

    def __init__(self) -> None:
        self.place = MemoryStorage()
        self.model = model()
        self.session: SessionId | None = None

    async def say(self, content: str, **more: Any) -> str:
        billing = Agent("billing", description="Knows bills.", instructions="You bill.")
        triage = Agent("triage", instructions="You triage.", handoffs=[billing])
        parts: Any = {
            "model": self.model,
            "agents": [triage],
            "tools": [Act("look", look)],
        }
        async with memory_runtime(place=self.place, **parts) as runtime:
            requests = runtime.requests
            message = NewMessage(content=content, agent="triage", session_id=self.session, **more)
            sent = await requests.inbox.send(message, requests.local)
            self.session = sent.session_id
            reply = await requests.wait(sent.task_id)
        assert reply is not None
        assert reply.error is None, reply.error
        return str(sent.task_id)

    async def grow(self) -> None:
        """Make the log so long that a fold looks for its snapshot."""
        note = Entry(NoteEmitted(event_type="t"))
        await self.place.log.send(LogId(str(self.session)), [note] * SNAPSHOT_EVENTS)

    async def leave_snapshot(self) -> None:
        log, log_id = self.place.log, LogId(str(self.session))
        state = fold(log_id, await log.read(log_id))
        body = to_snapshot(state)
        assert body
        assert await log.snapshots.write(state.log_id, StoredState(state.seq, fold_version(), body))


async def whole(*, snapshots: bool) -> list[ModelRequest]:
    talk = Talk()
    tasks = []
    for content in SAID:
        tasks.append(await talk.say(content))
        if snapshots and len(tasks) == 1:
            await talk.grow()
        if snapshots:
            await talk.leave_snapshot()
    for replaced in (tasks[-1], tasks[2]):  # the newest, then one before the fresh start
        await talk.say("Instead", supersedes=replaced)
        if snapshots:
            await talk.leave_snapshot()
    log_id, log = LogId(str(talk.session)), talk.place.log
    state = await ColdFolds(log).folded(log_id, await log.head(log_id))
    assert bool(state.saved) is snapshots
    if not snapshots:
        assert check_every_cut(await log.read(log_id)) > 0
    return talk.model.requests


async def test_the_model_reads_the_same_messages_with_and_without_snapshots() -> None:
    plain, cold = await whole(snapshots=False), await whole(snapshots=True)
    assert len(plain) > len(SAID)
    for one, other in zip(plain, cold, strict=True):
        assert [each.content for each in one.messages] == [each.content for each in other.messages]
        assert (one.system, len(one.tools)) == (other.system, len(other.tools))
