"""What a manifest declares, when it says nothing."""

from penstock.manifest.tool import ToolLimits
from penstock.tools.scripts.bindings import LOG_BYTES, NESTED_CALLS, Bindings


def test_a_manifest_that_says_nothing_reaches_nothing() -> None:
    bindings = Bindings()
    assert (bindings.vault, bindings.state, bindings.egress) == ((), (), ())
    assert dict(bindings.runtime_config) == {}


def test_the_limits_are_those_of_a_manifest_that_sets_none() -> None:
    limits = ToolLimits()
    assert (limits.log_bytes, limits.nested_calls) == (LOG_BYTES, NESTED_CALLS)
