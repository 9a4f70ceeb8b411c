"""The bindings of a manifest that declares nothing."""

from penstock.core.limits import Limits
from penstock.manifest.tool import ToolLimits
from penstock.tools.scripts.bindings import Bindings


def test_empty_bindings_permit_nothing() -> None:
    bindings = Bindings()
    assert (bindings.vault, bindings.state, bindings.egress) == ((), (), ())
    assert dict(bindings.runtime_config) == {}


def test_the_limits_of_a_manifest_that_sets_none_are_those_of_the_project() -> None:
    bindings, limits = Bindings(), ToolLimits()
    assert (limits.memory_mb, limits.log_bytes, limits.nested_calls) == (None, None, None)
    assert (bindings.memory_mb, bindings.log_bytes, bindings.nested_calls) == (None, None, None)
    assert bindings.timeout_ms == Limits().timeout_ms
