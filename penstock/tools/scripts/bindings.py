"""The bindings of a script: the secrets, values, hosts and limits that its manifest declares."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.resources.hosts import HostPattern


class Bindings(Struct, frozen=True, kw_only=True):
    """Resources that a script may use, and its limits.

    In a file of its own, because a server reads it at start and loads the tools that use it late.
    """

    vault: Sequence[VaultKey] = ()
    state: Sequence[StateBinding] = ()
    egress: tuple[HostPattern, ...] = ()
    timeout_ms: int = 60_000
    """Default of the project. The timeout of a tool is in its spec."""
    memory_mb: int | None = None
    log_bytes: int | None = None
    nested_calls: int | None = None
    """For these three, None means the limit of the project."""
    runtime_config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    context: Json = field(default_factory=lambda: MappingProxyType({}))
    """Additional members of `task.getContext`."""
