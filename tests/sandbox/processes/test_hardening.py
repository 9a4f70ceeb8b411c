"""Layers of this machine: found by trying, said in one line."""

import sys

from penstock.sandbox.processes.confine import LAYERS
from penstock.sandbox.processes.hardening import (
    NONE_AT_ALL,
    available_layers,
    found_layers,
    missing_layers,
)


def test_every_layer_is_found_or_has_a_reason() -> None:
    wanted = set(LAYERS) if sys.platform == "linux" else {"confinement"}
    assert set(found_layers()) == wanted


def test_what_is_had_and_what_is_lacking_are_told_apart() -> None:
    layers = {"landlock": "", "seccomp": "no such call", "namespaces": "denied"}
    assert available_layers(layers) == ["landlock"]
    assert missing_layers(layers) == "seccomp: no such call; namespaces: denied"


def test_a_probe_that_fails_says_why_nothing_is_known() -> None:
    found = found_layers([sys.executable, "-c", "import sys; sys.exit('no such kernel')"])
    wanted = "it could not be tried: no such kernel" if sys.platform == "linux" else NONE_AT_ALL
    assert found == {"confinement": wanted}
