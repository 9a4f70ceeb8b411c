"""The work that an open project does in the background: sweeps of unused bytes, and webhooks."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from penstock.app.background.bodies import Describer
from penstock.app.background.sender import SenderParts, WebhookSender
from penstock.app.runtime import Runtime
from penstock.core.errors import ConfigError
from penstock.resources.egress import Egress


@asynccontextmanager
async def background_work(
    runtime: Runtime, egress: Egress | None, web_url: str
) -> AsyncIterator[None]:
    """Delete unreferenced blobs and send to webhooks, until the block ends.

    Raises ConfigError if a webhook has no secret.
    """
    async with AsyncExitStack() as closing:
        if (kept := runtime.parts.storage.database_parts) is not None:
            kept.sweeper.open()
            closing.push_async_callback(kept.sweeper.close)
        if (sender := _sender(runtime, egress, web_url)) is not None:
            await sender.check()
            runtime.parts.storage.log.listen(sender.hear)
            sender.open()
            closing.push_async_callback(sender.close)
        yield


def _sender(runtime: Runtime, egress: Egress | None, web_url: str) -> WebhookSender | None:
    """Return what sends the webhooks of a project; None if it has none."""
    parts = runtime.parts
    storage, world = parts.storage, parts.world
    if not storage.webhooks:
        return None
    if egress is None or storage.database_parts is None:
        raise ConfigError("webhooks need a database and access to the network")
    return WebhookSender(
        storage.webhooks,
        SenderParts(
            outbox=storage.database_parts.outbox,
            describer=Describer(storage.log, storage.projections, web_url),
            egress=egress,
            vault=storage.database_parts.vault,
            clock=world.clock,
            idle_seconds=world.limits.sweep_seconds,
        ),
    )
