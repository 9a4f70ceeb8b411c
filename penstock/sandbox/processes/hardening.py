"""Which layers of confinement this machine has; each is tried in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from penstock.core.exhaustion import starting_process
from penstock.sandbox.processes.process import CONFINE

NONE_AT_ALL = "scripts are confined by the operating system on Linux alone"
_SECONDS = 10
PROBE = (sys.executable, "-I", "-S", str(CONFINE), "--probe")


def found_layers(probe: Sequence[str] = PROBE) -> Mapping[str, str]:
    """Return every layer by name, with why it cannot be had, or nothing."""
    if sys.platform != "linux":
        return {"confinement": NONE_AT_ALL}
    with starting_process():
        found = subprocess.run(probe, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603  of penstock's own making
    if found.returncode:
        said = found.stderr.decode("utf-8", "replace").strip()[-200:]
        return {"confinement": f"it could not be tried: {said}"}
    layers: dict[str, str] = json.loads(found.stdout)
    return layers


def available_layers(layers: Mapping[str, str]) -> list[str]:
    """Return the layers that can be laid."""
    return [name for name, why in layers.items() if not why]


def missing_layers(layers: Mapping[str, str]) -> str:
    """Return the others, each with its reason, as a text; nothing if there are none."""
    return "; ".join(f"{name}: {why}" for name, why in layers.items() if why)
