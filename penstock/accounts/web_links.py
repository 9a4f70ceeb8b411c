"""Links that open one conversation in a browser.

A link is a random token, and only its hash is stored. Two requests with one token may come at once,
to two processes: the transaction that deletes the row creates the key, and the other one is
refused. All refusals have the same message, so that a guess learns nothing.

Shown by tests/accounts/test_web_links.py.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from penstock.accounts.keys import NEW_KEY, PREFIX, hash_of, url_safe
from penstock.core.clock import Clock, Moment
from penstock.core.errors import LinkExpired
from penstock.core.ids import LogId, SessionId, new_id, new_secret
from penstock.core.profile import Profile
from penstock.store.database import Database
from penstock.store.tables import keys, sessions, web_links

LINK_UNUSABLE = (
    "This link cannot be used: it was used already, has expired, or is invalid. "
    "Request a new one with /web."
)
WEB_LINK_SECONDS = 600
"""How long a link is valid if it is not used: time to move to another device. A link is sent
through a chat, where others may find it later."""


class OpenedLink(Struct, frozen=True, kw_only=True):
    """The result of using a link."""

    session_id: SessionId
    agent: str
    key: str | None = None
    """A key for this conversation; None if the server needs no keys."""
    expires_at: Moment | None = None
    """When the key expires; None if the server needs no keys."""


class WebLinks:
    """Creates links and redeems each of them once."""

    def __init__(
        self, database: Database, clock: Clock, secret: Callable[[], bytes] = new_secret
    ) -> None:
        self._database = database
        self._clock = clock
        self._secret = secret
        self._key_seconds = database.limits.web_key_seconds

    async def make(self, session_id: SessionId, profile: Profile) -> str:
        """Create a link to a conversation of this profile; return its token."""
        token, now = url_safe(self._secret()), self._clock.now()
        expired = web_links.delete().where(web_links.c.until <= now)
        row = {
            "sha256": hash_of(token),
            "session_id": session_id,
            "profile_id": profile.profile_id,
            "permissions": [each for each in NEW_KEY if profile.holds(each)],
            "until": now + 1000 * WEB_LINK_SECONDS,
        }

        def unit(connection: Connection) -> None:
            connection.execute(expired)
            connection.execute(web_links.insert(), row)

        await self._database.write(unit)
        return token

    async def open(self, token: str) -> OpenedLink:
        """Redeem a link and create its key. Raises LinkExpired, always with the same message."""
        link = await self._database.read(lambda connection: self._find(connection, token))
        if link is None:
            raise LinkExpired(LINK_UNUSABLE)
        key, name = PREFIX + url_safe(self._secret()), new_id("link")

        def unit(connection: Connection) -> OpenedLink | None:
            used = web_links.delete().where(web_links.c.sha256 == link.sha256)
            of_session = sessions.c.session_id == link.session_id
            agent = connection.execute(select(sessions.c.agent).where(of_session)).scalar()
            if connection.execute(used).rowcount != 1 or agent is None:
                return None
            opened = OpenedLink(session_id=link.session_id, agent=agent)
            if connection.execute(select(keys.c.name).limit(1)).first() is None:
                return opened
            row = self._key_row(link, name)
            connection.execute(keys.insert(), row | {"sha256": hash_of(key)})
            return OpenedLink(
                session_id=link.session_id, agent=agent, key=key, expires_at=row["expires_at"]
            )

        opened = await self._database.write(unit, order=LogId(link.session_id))
        if opened is None:
            raise LinkExpired(LINK_UNUSABLE)
        return opened

    def _find(self, connection: Connection, token: str) -> Row[Any] | None:
        statement = select(web_links).where(
            web_links.c.sha256 == hash_of(token), web_links.c.until > self._clock.now()
        )
        return connection.execute(statement).first()

    def _key_row(self, link: Row[Any], name: str) -> dict[str, Any]:
        now = self._clock.now()
        return {
            "name": f"web {name}",
            "profile_id": link.profile_id,
            "permissions": link.permissions,
            "session_id": link.session_id,
            "created_at": now,
            "expires_at": Moment(now + 1000 * self._key_seconds),
        }
