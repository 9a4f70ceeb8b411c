"""Confinement: what a process can still do that breaks out of its engine, layer by layer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.sandbox.processes.confine import LAYERS, MACHINES, REFUSED
from penstock.sandbox.processes.process import CONFINE, LOOKED_AT, SYSTEM, Command

TRIES = """
import ctypes, json, os, socket, sys
secret, parent = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
def ptrace():
    if libc.ptrace(16, parent, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
tries = {
    "read": lambda: open(secret).read(),
    "look": lambda: os.listdir(os.path.dirname(secret)),
    "write": lambda: open(secret, "w"),
    "remove": lambda: os.remove(secret),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "run": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "kill": lambda: os.kill(parent, 0),
    "leave": lambda: os.setsid(),
    "trace": ptrace,
}
denied = []
for name, act in tries.items():
    try:
        act()
    except OSError:
        denied.append(name)
print(json.dumps(denied))
"""
EVERYTHING = [
    "read",
    "look",
    "write",
    "remove",
    "connect",
    "listen",
    "run",
    "kill",
    "leave",
    "trace",
]


def command(layers: list[str], **more: object) -> Command:
    passed: dict[str, object] = {
        "argv": ["unused"],
        "folder": Path("/"),
        "layers": layers,
        "execute": [sys.executable, sys.prefix, sys.base_prefix, *SYSTEM],
        "read": LOOKED_AT,
    }
    return Command(**(passed | more))  # type: ignore[arg-type]


def confined(plan: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(CONFINE), plan, sys.executable, "-I", "-S", *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


def denied(secret: Path, layers: list[str]) -> list[str]:
    secret.write_text("secret")
    done = confined(command(layers).plan(), "-c", TRIES, str(secret), str(os.getpid()))
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout)
    return result


def probed() -> dict[str, str]:
    """Try each layer as a server does at its start: in a fresh process."""
    program = (
        "import json; from penstock.sandbox.processes.confine import probe; "
        "print(json.dumps(probe()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    result: dict[str, str] = json.loads(done.stdout)
    return result


def test_all_layers_together_deny_everything(tmp_path: Path) -> None:
    """Confined by the OS (files, network, processes, memory)."""
    layers = [name for name, why in probed().items() if not why]
    left = set(EVERYTHING) - set(denied(tmp_path / "secret", layers))
    assert not left or set(layers) != set(LAYERS)


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        ("landlock", {"read", "look", "write", "remove", "run", "kill"}),
        ("seccomp", {"connect", "listen", "leave", "trace"}),
        ("namespaces", {"connect"}),
    ],
)
def test_each_layer_denies_something_or_the_program_does_not_run(
    tmp_path: Path, layer: str, what: set[str]
) -> None:
    if probed()[layer]:
        plan = command(["no_new_privs", layer]).plan()
        assert confined(plan, "-c", "print('it ran')").returncode == REFUSED
    else:
        assert what <= set(denied(tmp_path / "secret", ["no_new_privs", layer]))


def test_a_write_beyond_the_limit_fails_without_killing_the_process(tmp_path: Path) -> None:
    plan = command([], limits={"FSIZE": 0, "CORE": 0}).plan()
    program = f"import pathlib; pathlib.Path({str(tmp_path / 'a')!r}).write_text('x')"
    done = confined(plan, "-c", program)
    assert "File too large" in done.stderr
    assert (tmp_path / "a").read_text() == ""


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"layers": ["seccomp"], "parent": 1}, "the parent process has ended"),
        ({"layers": ["landlock"], "execute": ["/no/such\0"]}, "embedded null"),
    ],
)
def test_a_program_that_cannot_be_confined_does_not_run(
    plan: dict[str, object], message: str
) -> None:
    """A missing layer is never ignored: the program does not start."""
    whole = json.loads(command([]).plan()) | plan
    done = confined(json.dumps(whole), "-c", "print('it ran')")
    assert done.stdout == ""
    assert done.returncode
    assert message in done.stderr
    assert done.returncode in {1, REFUSED}


NUMBERS = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "vhangup": (153, 58),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
}
"""Calls that no script needs: the numbers of Linux on x86_64 and on aarch64."""


@pytest.mark.parametrize(("place", "machine"), [*enumerate(["x86_64", "aarch64"])])
def test_the_denied_system_calls_have_these_names(place: int, machine: str) -> None:
    _, refused = MACHINES[machine]
    assert sorted(refused) == sorted(numbers[place] for numbers in NUMBERS.values())


def test_a_probe_reports_a_reason_for_each_missing_layer() -> None:
    """An unknown name would count as an available layer."""
    assert set(map(type, probed().values())) == {str}
