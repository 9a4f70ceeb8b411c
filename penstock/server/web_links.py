"""Links of `/web`: each opens its conversation once, with a key of its own for who has none."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.chat.keys import NEW_KEY
from penstock.chat.web_links import WebLink
from penstock.core.clock import Moment
from penstock.core.errors import NotFound
from penstock.core.profile import ADMIN
from penstock.server.openapi import answers
from penstock.server.problem import Json
from penstock.server.site import Site, site_of

router = APIRouter(prefix="/api/web-links", tags=["web links"])


@router.post("/{token}", responses=answers("OpenedLink"), response_class=Json)
async def open_link(token: str, request: Request) -> Response:
    """Use a link: what it opens, and a key for it where keys are needed."""
    site = site_of(request)
    parts = site.runtime.parts
    link = parts.web_links.read(token)
    await site.kept.used_links.use(link)
    session = await parts.projections.find_session(link.session_id)
    if session is None:
        raise NotFound("the conversation of this link was deleted")
    key = await _key_for(site, link)
    return Json({"agentId": session.agent, "conversationId": session.session_id, "key": key})


async def _key_for(site: Site, link: WebLink) -> str | None:
    """Return a key with what the one may do who asked for the link; nothing rules with it."""
    keys = site.kept.keys
    if not await keys.exist():
        return None
    noted = link.profile.noted
    until = site.runtime.parts.clock.now() + 1000 * site.limits.web_key_seconds
    return await keys.create(
        f"web {link.name}",
        profile_id=link.profile.profile_id,
        permissions=NEW_KEY if noted is None else [each for each in noted if each != ADMIN],
        expires_at=Moment(until),
    )
