"""The process dies at every write in turn; the model is sent the same files each time."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Agent, ChatSettings, Document, Image
from penstock.agents.attachments.content import Attachment
from penstock.core.limits import Limits
from penstock.core.messages import ImagePart, Message, TextPart
from penstock.models.scripted import SCRIPTED, ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit import sample_files
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.tools import Act

pytestmark = pytest.mark.chaos
CONTENT: Sequence[str | Attachment] = (
    Image(sample_files.image("JPEG", (3000, 300))),
    Document(b"a,b\n"),
    "What?",
)


async def draw(input: Any, invocation: Any) -> Any:
    large = sample_files.image("PNG", (200, 100), compress_level=0)
    return {"image": f"data:image/png;base64,{b64encode(large).decode()}"}


class Story:
    """A message with files, a call with an image in its result, and an answer."""

    def __init__(self, writes: int, *, before: bool) -> None:
        self.clock = FakeClock()
        self.log = DyingLog(self.clock, writes=writes, before=before)
        self.model = ScriptedModel({"What?": [call("draw"), say("Done.")]})
        self.model.card = replace(SCRIPTED, images=True)
        self.agent = Agent("assistant", settings=ChatSettings(tool_images=True))

    async def tell(self) -> list[Any]:
        """Run it in as many processes as it takes; return what the model was sent."""
        place = MemoryStorage(clock=self.clock, log=self.log, limits=Limits(shutdown_seconds=0))
        tools, agents = [Act("draw", draw)], [self.agent]
        while True:
            async with memory_runtime(
                model=self.model, tools=tools, agents=agents, place=place
            ) as runtime:
                telling = see_through(runtime, CONTENT, lambda question: {})
                reply = await live(runtime, self.log, telling)
            if reply is not None:
                assert reply.content == "Done."
                return [without_ids(request.messages) for request in self.model.requests]
            self.log.revive()
            self.clock.advance(place.limits.lease_seconds + 1)


def without_ids(messages: Sequence[Message]) -> list[Any]:
    """Return what a model reads of messages: ids of calls differ between two stories."""
    return [(each.content, getattr(each, "parts", ())) for each in messages]


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_a_process_killed_at_any_write_sends_the_same_files_again(before: bool) -> None:
    whole = Story(-1, before=False)
    first, second = await whole.tell()
    assert [type(part) for part in first[0][1]] == [ImagePart, TextPart, TextPart]
    assert [type(part) for part in second[2][1]] == [TextPart, ImagePart]
    for writes in range(1, whole.log.writes + 1):
        sent = await Story(writes, before=before).tell()
        assert sent[0] == first
        assert sent[-1] == second
        assert all(each in (first, second) for each in sent)
