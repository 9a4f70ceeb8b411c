"""Links by which a person comes to a conversation in the web page: signed, and short-lived."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from penstock.core.canonical import compact
from penstock.core.clock import Clock, Moment
from penstock.core.errors import LinkExpired
from penstock.core.ids import ProfileId, SessionId
from penstock.core.profile import Profile
from penstock.core.world import World
from penstock.store.database import Database
from penstock.store.tables import used_links

USED = "this link was used already; ask for a new one with /web"
WRONG = "this link is not one of ours; ask for a new one with /web"
OVER = "the time of this link is over; ask for a new one with /web"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLink:
    """What a link opens, and for whom."""

    name: str
    """Its own, by which it is used once."""
    session_id: SessionId
    profile: Profile
    until: Moment


class UsedLinks:
    """The links that were used, so that nobody uses one again."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def use(self, link: WebLink) -> None:
        """Use a link. Raises LinkExpired for one that was used."""
        over = used_links.delete().where(used_links.c.until <= self._clock.now())
        row = {"name": link.name, "until": link.until}

        def unit(connection: Connection) -> None:
            connection.execute(over)
            connection.execute(used_links.insert(), row)

        try:
            await self._database.write(unit)
        except IntegrityError:
            raise LinkExpired(USED) from None


class WebLinks:
    """Makes links, and knows its own."""

    def __init__(self, key: bytes, world: World, place: str) -> None:
        self._key = sha256(b"penstock web links" + key).digest()
        self._world = world
        self._place = place.rstrip("/")

    @property
    def minutes(self) -> int:
        """How long a link works."""
        return self._world.limits.web_link_seconds // 60

    def to(self, session_id: SessionId, profile: Profile) -> str:
        """Return a link to a conversation, for who holds this profile."""
        until = self._world.clock.now() + 1000 * self._world.limits.web_link_seconds
        name = self._world.new_id("link")
        said = compact([name, session_id, profile.profile_id, profile.noted, until])
        text = urlsafe_b64encode(said.encode()).decode().rstrip("=")
        return f"{self._place}/#web={text}.{self._signed(text)}"

    def read(self, token: str) -> WebLink:
        """Return what a link says. Raises LinkExpired for one of others, or of another time."""
        text, _, signature = token.partition(".")
        right = self._signed(text).encode()
        if not hmac.compare_digest(right, signature.encode("utf-8", "surrogatepass")):
            raise LinkExpired(WRONG)
        name, session_id, profile_id, noted, until = json.loads(
            urlsafe_b64decode(text + "=" * (-len(text) % 4))
        )
        if until <= self._world.clock.now():
            raise LinkExpired(OVER)
        profile = Profile.from_noted(ProfileId(profile_id), noted)
        return WebLink(name=name, session_id=session_id, profile=profile, until=Moment(until))

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), sha256).hexdigest()
