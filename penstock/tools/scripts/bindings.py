"""What a manifest declares of the world around its script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.core.envelope import Json
from penstock.manifest.bindings import StateBinding, VaultKey
from penstock.resources.hosts import HostPattern

LOG_BYTES = 262_144
NESTED_CALLS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """What a manifest declares of the world around its script."""

    vault: Sequence[VaultKey] = ()
    state: Sequence[StateBinding] = ()
    egress: tuple[HostPattern, ...] = ()
    memory_mb: int | None = None
    log_bytes: int = LOG_BYTES
    nested_calls: int = NESTED_CALLS
    """New calls in one entry: those that are recorded do not count."""
    runtime_config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    context: Json = field(default_factory=lambda: MappingProxyType({}))
    """What `task.getContext` tells besides."""
