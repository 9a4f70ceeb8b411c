"""What a manifest declares of the world around its script."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from penstock.core.envelope import Json
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.resources.hosts import HostPattern


class Bindings(Struct, frozen=True, kw_only=True):
    """What a manifest declares of the world around its script."""

    vault: Sequence[VaultKey] = ()
    state: Sequence[StateBinding] = ()
    egress: tuple[HostPattern, ...] = ()
    timeout_ms: int = 60_000
    """Where a manifest says nothing; what holds is in the tool's spec."""
    memory_mb: int | None = None
    log_bytes: int | None = None
    nested_calls: int | None = None
    """Of all three, None is what the project's limits say."""
    runtime_config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    context: Json = field(default_factory=lambda: MappingProxyType({}))
    """Additional members of `task.getContext`."""
