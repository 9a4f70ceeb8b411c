"""Send a message and wait, as the HTTP API does: the reply in the runtime's own form."""

from typing import Any

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.ids import ASSISTANT, TaskId
from penstock.core.profile import Profile


async def ask(
    runtime: Runtime,
    content: Any,
    *,
    agent: str | Agent[Any, Any] = ASSISTANT,
    session: str | None = None,
    profile: Profile | None = None,
) -> TaskReply:
    """Send a message, and wait until its task has ended or waits for a person."""
    requests = runtime.requests
    if isinstance(agent, Agent):
        requests.known.agents.add(agent)
        agent = agent.name
    kept = await requests.known.attachments.keep(content, profile or requests.local)
    message = NewMessage(content=kept.text, attachments=kept.files, agent=agent, session_id=session)
    task_id = TaskId(runtime.parts.world.new_id("task"))
    request = requests.inbox.request_reply(message, profile or requests.local, task_id)
    return await requests.waiter.reply_to(task_id, request)
