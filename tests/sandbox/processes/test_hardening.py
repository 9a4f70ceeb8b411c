"""Layers of this machine: found by trying, said in one line."""

import sys

from penstock.sandbox.processes.confine import LAYERS
from penstock.sandbox.processes.hardening import available_layers, found_layers, missing_layers


def test_every_layer_is_found_or_has_a_reason() -> None:
    wanted = set(LAYERS) if sys.platform == "linux" else {"confinement"}
    assert set(found_layers()) == wanted


def test_what_is_had_and_what_is_lacking_are_told_apart() -> None:
    layers = {"landlock": "", "seccomp": "no such call", "namespaces": "denied"}
    assert available_layers(layers) == ["landlock"]
    assert missing_layers(layers) == "seccomp: no such call; namespaces: denied"
