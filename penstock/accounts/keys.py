"""API keys, and the browser sign-ins that represent them: shown once, stored as hashes.

A key is 256 random bits, so a plain SHA-256 is enough to store it: guessing is hopeless, and no
slow hash delays each request. All failures raise the same Unauthenticated, so that a caller cannot
tell a revoked key from an unknown one. A permission that left the project's catalog counts for
nothing, although the key still lists it. Shown by tests/accounts/test_keys.py.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection, Row, func, or_, select
from sqlalchemy.exc import IntegrityError

from penstock.core.clock import Clock, Moment
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import InvalidRequest, NameTaken, NotFound, Unauthenticated
from penstock.core.ids import ProfileId, SessionId, new_secret
from penstock.core.profile import APPROVE, CHAT, LOCAL, READ, Profile
from penstock.manifest.permissions import BUILTIN, PermissionCatalog, unknown_permissions
from penstock.store.database import Database
from penstock.store.tables import keys, schedules, sign_ins

PREFIX = "pk_"
NEW_KEY = (READ, CHAT, APPROVE)
"""The permissions of a key by default."""
_USE_IS_NOTED_EVERY_MS = 60_000


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    name: str
    profile_id: ProfileId
    permissions: tuple[str, ...]
    created_at: Moment
    expires_at: Moment | None = None
    revoked_at: Moment | None = None
    last_used_at: Moment | None = None
    session_id: SessionId | None = None
    """The only conversation that it opens; None means all of its profile."""
    stale: tuple[str, ...] = ()
    """Permissions that are no longer in the project's catalog; they have no effect."""


class Keys:
    """The keys of an installation."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        secret: Callable[[], bytes] = new_secret,
        *,
        catalog: PermissionCatalog | None = None,
    ) -> None:
        self.catalog = catalog
        """Every permission that can be granted; None means any."""
        self._database = database
        self._clock = clock
        self._secret = secret

    def renew(self, catalog: PermissionCatalog | None) -> None:
        """Check the permissions of new keys against a reloaded catalog."""
        self.catalog = catalog

    async def create(
        self,
        name: str,
        *,
        profile_id: ProfileId | None = None,
        permissions: Sequence[str] = NEW_KEY,
        expires_at: Moment | None = None,
    ) -> str:
        """Create a key; return its secret, which is shown once. The profile defaults to the name.

        Raises NameTaken, and InvalidRequest for a blank name or a permission that the catalog does
        not have.
        """
        if not name.strip():
            raise InvalidRequest([{"field": "/name", "issue": "must not be blank"}])
        self._check(permissions)
        key = PREFIX + url_safe(self._secret())
        row = {
            "sha256": hash_of(key),
            "name": name,
            "profile_id": profile_id or name,
            "permissions": sorted(set(permissions)),
            "created_at": self._clock.now(),
            "expires_at": expires_at,
        }
        try:
            await self._database.write(lambda connection: connection.execute(keys.insert(), row))
        except IntegrityError:
            raise NameTaken(f"there is a key {name!r} already; use another name") from None
        return key

    async def list(self) -> Sequence[KeyRecord]:
        """Return every key, revoked ones included, oldest first."""
        statement = select(keys).order_by(keys.c.created_at, keys.c.name)
        return await self._database.read(
            lambda connection: [self._record(row) for row in connection.execute(statement)]
        )

    async def revoke(self, name: str) -> int:
        """Revoke a key, and pause the active schedules that it made, in one transaction.

        With the last valid key of a profile, the schedules that models made for the profile are
        paused, too: which key the conversation was opened with is not known.

        Returns how many schedules were paused. Raises NotFound, which names the nearest one.
        """
        paused = await self._database.write(partial(_revoke, name, self._clock.now()))
        if paused is None:
            names = [each.name for each in await self.list()]
            raise NotFound(f"there is no key {name!r}.{did_you_mean(name, names)}")
        return paused

    async def exist(self) -> bool:
        """Return whether a key was ever created; from then on every request needs one."""
        statement = select(keys.c.name).limit(1)
        return await self._database.read(
            lambda connection: connection.execute(statement).first() is not None
        )

    async def profile(self, key: str) -> Profile:
        """Return the profile of a key. Raises Unauthenticated, always with the same message."""
        return await self.profile_of(hash_of(key))

    async def profile_of(self, hashed: str) -> Profile:
        """Return the profile of the key with this hash. Raises Unauthenticated."""
        now = self._clock.now()
        statement = select(keys).where(keys.c.sha256 == hashed)
        row = await self._database.read(lambda connection: connection.execute(statement).first())
        if row is None:
            raise Unauthenticated
        record = self._record(row)
        is_over = record.expires_at is not None and record.expires_at <= now
        if is_over or record.revoked_at is not None:
            raise Unauthenticated
        if now - (record.last_used_at or 0) >= _USE_IS_NOTED_EVERY_MS:
            used = keys.update().where(keys.c.sha256 == hashed).values(last_used_at=now)
            await self._database.write(lambda connection: connection.execute(used))
        counted = frozenset(record.permissions).difference(record.stale)
        return Profile(
            profile_id=record.profile_id,
            permissions=counted,
            session_id=record.session_id,
            key_name=record.name,
        )

    def _check(self, permissions: Sequence[str]) -> None:
        unknown = unknown_permissions(permissions, self.catalog)
        if self.catalog is None or not unknown:
            return
        known = self.catalog.ids.union(BUILTIN)
        raise InvalidRequest(
            [
                {
                    "field": "/permissions",
                    "issue": f"{each!r} is not in {self.catalog.file}.{did_you_mean(each, known)}",
                }
                for each in unknown
            ]
        )

    def _record(self, row: Row[Any]) -> KeyRecord:
        permissions = tuple(row.permissions)
        return KeyRecord(
            name=row.name,
            profile_id=ProfileId(row.profile_id),
            permissions=permissions,
            created_at=Moment(row.created_at),
            expires_at=row.expires_at,
            revoked_at=row.revoked_at,
            last_used_at=row.last_used_at,
            session_id=row.session_id,
            stale=unknown_permissions(permissions, self.catalog),
        )


def _revoke(name: str, now: Moment, connection: Connection) -> int | None:
    """Revoke a key and pause its schedules; return how many, or None if there is no such key."""
    same = keys.c.name == name
    revoked = keys.update().where(same).values(revoked_at=func.coalesce(keys.c.revoked_at, now))
    row = connection.execute(revoked.returning(keys.c.profile_id)).first()
    if row is None:
        return None
    active = schedules.update().where(schedules.c.status == "active")
    values = {"status": "paused", "updated_at": now}
    reason = f"the key {name!r} that made it was revoked"
    made = active.where(schedules.c.key_name == name).values(values | {"reason": reason})
    count = connection.execute(made).rowcount
    lasts = or_(keys.c.expires_at.is_(None), keys.c.expires_at > now)
    valid = select(keys.c.name).where(keys.c.revoked_at.is_(None), lasts)
    others = valid.where(keys.c.profile_id == row.profile_id)
    if row.profile_id == LOCAL or connection.execute(others.limit(1)).first() is not None:
        return count
    reason = f"the last key of its profile {row.profile_id!r} was revoked"
    of_profile = active.where(
        schedules.c.profile_id == row.profile_id,
        schedules.c.key_name.is_(None),
        schedules.c.source != "file",
    )
    return count + connection.execute(of_profile.values(values | {"reason": reason})).rowcount


def url_safe(secret: bytes) -> str:
    """Return random bytes as URL-safe text."""
    return urlsafe_b64encode(secret).decode().rstrip("=")


def hash_of(key: str) -> str:
    """Return the stored hash of a secret."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


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
        """Return the identity behind a token; renew its lifetime when half of it has passed.

        Raises Unauthenticated, also when its key does not count any more.
        """
        hashed, now = hash_of(token), self._clock.now()
        statement = select(sign_ins).where(sign_ins.c.sha256 == hashed, sign_ins.c.until > now)
        row = await self._database.read(lambda connection: connection.execute(statement).first())
        if row is None:
            raise Unauthenticated
        profile = await self._keys.profile_of(row.key_sha256)
        is_renewed = 2 * (row.until - now) < 1000 * self.seconds
        if is_renewed:
            until = now + 1000 * self.seconds
            later = sign_ins.update().where(sign_ins.c.sha256 == hashed).values(until=until)
            await self._database.write(lambda connection: connection.execute(later))
        return SignedIn(profile, is_renewed)

    async def end(self, token: str) -> None:
        """Sign a browser out; an unknown token is not an error."""
        gone = sign_ins.delete().where(sign_ins.c.sha256 == hash_of(token))
        await self._database.write(lambda connection: connection.execute(gone))
