"""The task that a message belongs to."""

from penstock.chat.history import TaskMessages
from penstock.core.errors import NotFound
from penstock.core.ids import MessageId
from penstock.core.profile import Profile
from penstock.server.site import Site


async def find_task_messages(
    site: Site, profile: Profile, agent: str, message_id: MessageId
) -> TaskMessages:
    """Return the task of a message that this profile may see. Raises NotFound."""
    found = await site.kept.lookup.find_message(message_id, agent, profile)
    task = None if found is None else await site.runtime.parts.projections.find_task(found.task_id)
    if task is None:
        site.runtime.parts.agents.get(agent)
        raise NotFound(f"agent {agent!r} has no message {message_id!r}")
    return await site.history.of_task(task)
