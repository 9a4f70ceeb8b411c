"""A vault in memory."""

from collections.abc import Sequence

from penstock.core.clock import Clock, Moment
from penstock.core.limits import Limits
from penstock.core.state.scope import Scope
from penstock.resources.vault import SecretListing, by_place, check_secret, not_there


class MemoryVault:
    """Secrets in plain text, for tests."""

    def __init__(self, clock: Clock, limits: Limits | None = None) -> None:
        self._clock = clock
        self._limits = limits or Limits()
        self._secrets: dict[tuple[Scope, str], tuple[str, Moment]] = {}

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Store a secret; replace an existing one."""
        check_secret(scope, key, value, self._limits)
        self._secrets[scope, key] = value, self._clock.now()

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret."""
        if (scope, key) not in self._secrets:
            raise not_there(scope, key)
        return self._secrets[scope, key][0]

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """Return the secrets without their values."""
        found = [
            SecretListing(scope=where, key=key, updated_at=at)
            for (where, key), (_, at) in self._secrets.items()
            if scope in {None, where}
        ]
        return sorted(found, key=by_place)

    async def delete(self, scope: Scope, key: str) -> bool:
        """Delete a secret."""
        return self._secrets.pop((scope, key), None) is not None

    async def rotate(self) -> int:
        """Return the number of secrets. There is nothing to re-encrypt."""
        return len(self._secrets)
