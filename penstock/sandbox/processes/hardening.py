"""Finds out which layers of confinement this machine has, by trying each in a child process.

A trial instead of a check of versions: containers, LSM settings and seccomp profiles of the host
can refuse a layer that the kernel has. Proof: tests/sandbox/processes/test_hardening.py.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from penstock.core.exhaustion import starting_process
from penstock.sandbox.processes.process import CONFINE

NONE_AT_ALL = "only Linux can confine scripts"
_SECONDS = 10
PROBE = (sys.executable, "-I", "-S", str(CONFINE), "--probe")


def found_layers(probe: Sequence[str] = PROBE) -> Mapping[str, str]:
    """Return each layer with the reason why it is not available, or an empty text."""
    if sys.platform != "linux":
        return {"confinement": NONE_AT_ALL}
    with starting_process():
        ended = subprocess.run(probe, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603  of penstock's own making
    if ended.returncode:
        reason = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        return {"confinement": f"it could not be tried: {reason}"}
    layers: dict[str, str] = json.loads(ended.stdout)
    return layers


def available_layers(layers: Mapping[str, str]) -> list[str]:
    """Return the names of the layers that this machine has."""
    return [name for name, why in layers.items() if not why]


def missing_layers(layers: Mapping[str, str]) -> str:
    """Return the missing layers and their reasons as one line; empty if none is missing."""
    return "; ".join(f"{name}: {why}" for name, why in layers.items() if why)
