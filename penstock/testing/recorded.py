"""Makes a scripted model of a recorded task, so that a test repeats what a real model said."""

import json
from typing import Any

from msgspec.structs import replace

from penstock.chat.python.recorded_task import RecordedTask
from penstock.core.errors import RuntimeMisuse
from penstock.core.events.events import ReplyReceived
from penstock.core.reply import Reply
from penstock.models.scripted import ScriptedModel, ScriptedReply, raw_call, say, think


def recorded_model(reply: Reply[Any]) -> ScriptedModel:
    """Return a model that gives the replies of a recorded task again, in their order.

    Replies that were interrupted and began again count once, as they ended.

    Args:
        reply: The reply of a task, such as `await runtime.attach(task_id).reply()`.

    Returns:
        The model. A test with another request than the task had gets the next reply all the same.

    Raises:
        RuntimeMisuse: No model answered in the task.

    Example:
        >>> import asyncio
        >>> from penstock.testing import ScriptedModel, memory_runtime, recorded_model, say
        >>> async def main() -> None:
        ...     async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
        ...         model = recorded_model(await runtime.chat("Hello"))
        ...     async with memory_runtime(model=model) as runtime:
        ...         print((await runtime.chat("Hello")).content)
        >>> asyncio.run(main())
        Hi.
    """
    recorded = reply.recorded
    records = recorded.records if isinstance(recorded, RecordedTask) else ()
    replies = [each.event for each in records if isinstance(each.event, ReplyReceived)]
    if not replies:
        raise RuntimeMisuse(f"no model answered in the task {reply.task_id}, so it has no script")
    return ScriptedModel([_scripted(each) for each in replies])


def _scripted(reply: ReplyReceived) -> ScriptedReply:
    whole = think(reply.reasoning) if reply.reasoning else ScriptedReply()
    if reply.text:
        whole += say(reply.text)
    for call in reply.calls:
        whole += raw_call(call.name, json.dumps(call.arguments))
    return replace(whole, reason=reply.finish, usage=reply.usage)
