"""The task that a message belongs to."""

from penstock.chat.history import TaskMessages
from penstock.core.errors import NotFound
from penstock.core.ids import MessageId
from penstock.core.profile import Profile
from penstock.server.context import ServerContext


async def find_task_messages(
    context: ServerContext, profile: Profile, agent: str, message_id: MessageId
) -> TaskMessages:
    """Return the task of a message that the profile can read. Raises NotFound."""
    found = await context.kept.lookup.find_message(message_id, agent, profile)
    task = (
        None if found is None else await context.runtime.parts.projections.find_task(found.task_id)
    )
    if task is None:
        context.runtime.parts.agents.get(agent)
        raise NotFound(f"agent {agent!r} has no message {message_id!r}")
    return await context.history.of_task(task)
