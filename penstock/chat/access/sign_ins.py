"""Browser sign-ins: a cookie's token stands for a key and is stored as a hash."""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, select

from penstock.chat.access.keys import Keys, hash_of, url_safe
from penstock.core.clock import Clock
from penstock.core.errors import Unauthenticated
from penstock.core.ids import new_secret
from penstock.core.profile import Profile
from penstock.store.database import Database
from penstock.store.tables import keys, sign_ins


class SignedIn(NamedTuple):
    """The identity of a browser."""

    profile: Profile
    is_renewed: bool
    """Whether its lifetime was renewed, so that the cookie must be sent again."""


class SignIns:
    """Signs browsers in and out."""

    def __init__(
        self,
        database: Database,
        keys: Keys,
        clock: Clock,
        secret: Callable[[], bytes] = new_secret,
    ) -> None:
        self.seconds = database.limits.web_key_seconds
        """How long a browser stays signed in without a request."""
        self._database = database
        self._keys = keys
        self._clock = clock
        self._secret = secret

    async def begin(self, key: str) -> str:
        """Create a token for a key. Raises Unauthenticated."""
        await self._keys.profile(key)
        token, now = url_safe(self._secret()), self._clock.now()
        row = {
            "sha256": hash_of(token),
            "key_sha256": hash_of(key),
            "until": now + 1000 * self.seconds,
        }
        is_lost = sign_ins.c.key_sha256.not_in(select(keys.c.sha256))
        over = sign_ins.delete().where((sign_ins.c.until <= now) | is_lost)

        def unit(connection: Connection) -> None:
            connection.execute(over)
            connection.execute(sign_ins.insert(), row)

        await self._database.write(unit)
        return token

    async def find(self, token: str) -> SignedIn:
        """Return the identity behind a token; renew its lifetime when half of it is over.

        Raises Unauthenticated, also when its key does not count any more.
        """
        hashed, now = hash_of(token), self._clock.now()
        wanted = select(sign_ins).where(sign_ins.c.sha256 == hashed, sign_ins.c.until > now)
        row = await self._database.read(lambda each: each.execute(wanted).first())
        if row is None:
            raise Unauthenticated
        profile = await self._keys.profile_of(row.key_sha256)
        is_renewed = 2 * (row.until - now) < 1000 * self.seconds
        if is_renewed:
            until = now + 1000 * self.seconds
            later = sign_ins.update().where(sign_ins.c.sha256 == hashed).values(until=until)
            await self._database.write(lambda each: each.execute(later))
        return SignedIn(profile, is_renewed)

    async def end(self, token: str) -> None:
        """Sign a browser out; an unknown token is no error."""
        gone = sign_ins.delete().where(sign_ins.c.sha256 == hash_of(token))
        await self._database.write(lambda each: each.execute(gone))
