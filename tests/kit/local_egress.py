"""Egress to servers on this machine, with a DNS that knows a few names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.core.call_errors import CallError
from penstock.core.limits import Limits
from penstock.resources.egress import Egress, EgressCaller, Request
from penstock.resources.hosts import read_patterns
from penstock.resources.vault import SecretHandles
from tests.kit.origin import Say, origin

LIMITS = Limits(fetch_response_bytes=1000, fetch_request_bytes=100, fetch_ms=5000)
HERE = "127.0.0.1"


class Dns:
    """Knows a few names, and who asked for them."""

    def __init__(self, known: Mapping[str, Sequence[str]]) -> None:
        self.known = known
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.known:
            raise OSError("no such name")
        return self.known[host]


@dataclass(frozen=True)
class Way:
    """An egress to `api.test` and `b.test` on this machine, and how a tool asks it."""

    egress: Egress
    port: int
    dns: Dns

    def asker(self, *patterns: str, handles: SecretHandles | None = None) -> EgressCaller:
        expected = patterns or (f"http://api.test:{self.port}", f"http://b.test:{self.port}")
        return EgressCaller(
            tool_id="t", egress=read_patterns(expected), handles=handles or SecretHandles()
        )

    async def get(self, path: str = "/", *patterns: str, **more: Any) -> Any:
        url = f"http://api.test:{self.port}{path}"
        return await self.egress.fetch(Request(url=url, **more), self.asker(*patterns))


def way(port: int, limits: Limits = LIMITS, **more: Any) -> Way:
    dns = Dns({"api.test": [HERE], "b.test": [HERE], "c.test": [HERE]})
    private = [f"{host}.test:{port}" for host in ("api", "b", "c")]
    options: dict[str, Any] = {"allow": ["*", *(f"http://*:{port}" for _ in "x")], **more}
    return Way(Egress(limits, allow_private=private, resolve=dns, **options), port, dns)


async def asked(say: Say, limits: Limits = LIMITS, **more: Any) -> Any:
    """Ask a server that answers so."""
    async with origin(say) as server:
        return await way(server.port, limits).get(**more)


async def refusal(say: Say, limits: Limits = LIMITS, **more: Any) -> CallError:
    with pytest.raises(CallError) as refused:
        await asked(say, limits, **more)
    return refused.value
