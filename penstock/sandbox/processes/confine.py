"""Confines its own process as a plan says, then replaces itself with the program of a script.

`python -I -S confine.py PLAN PROGRAM ARGUMENT…` confines and runs a program; `--probe` alone
reports which layers this machine has.

Guarantees that the program runs with every layer of the plan or not at all: a layer that cannot be
applied ends the process with REFUSED. Resource limits come first, then LAYERS in their order;
each is inherited through `execv` and by all threads and children, and cannot be undone. The process
dies with its parent (PDEATHSIG; the check of `getppid` closes the race with a parent that ended
before).

It imports no module of penstock and few of the library, because it starts for every script: each
import would cost each start. The numbers below are of Linux's stable ABI, which Python's library
does not name. Proof: tests/sandbox/processes/test_confine.py and test_process.py.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

REFUSED = 120
"""The exit code of a process that could not be confined as its plan says."""
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 38, 22
_SECCOMP_MODE_FILTER = 2
_NEW_USER, _NEW_NET, _NEW_IPC, _NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 4, 8
_OF_FILES = _EXECUTE | _READ_FILE | 2 | 1 << 14 | 1 << 15
_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All file rights of each version of Landlock."""
_NEWEST_FILES = 5
_WITH_NETWORK, _WITH_SCOPES = 4, 6
_ALL_NETWORK, _ALL_SCOPES = 3, 3

_ALLOW, _KILL, _NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x00050001
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_ARCHITECTURE = 0, 4
_X32 = 0x40000000
_NEWER = (*range(425, 435), 438, 440, 442)
"""Denied, with the same numbers everywhere: io_uring, mounts by descriptor, pidfd_getfd and others.
"""
MACHINES: dict[str, tuple[int, Sequence[int]]] = {
    "x86_64": (
        0xC000003E,
        (
            *(41, 101, 109, 112, 153, 155, 161, 165, 166, 169, 170, 171, 175, 176, 246, 248, 249),
            *(250, 272, 298, 303, 304, 308, 310, 311, 313, 320, 321, 323),
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            *(39, 40, 41, 51, 58, 97, 104, 105, 106, 117, 142, 154, 157, 161, 162, 198, 217, 218),
            *(219, 241, 264, 265, 268, 270, 271, 273, 280, 282, 294),
        ),
    ),
}
"""The architecture, and the numbers of denied system calls. No engine needs them and exploits do:
sockets, ptrace, setpgid, setsid, mounts, namespaces, modules, keys, bpf, perf, userfaultfd."""


def apply(plan: Mapping[str, Any]) -> None:
    """Confine this process. Raises OSError for a layer that cannot be applied."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != plan["parent"]:
            raise OSError("the parent process has ended")
    for name, value in plan["limits"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(kind, (value, value))
    # A write beyond RLIMIT_FSIZE must fail with an error instead of killing the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for layer in plan["layers"]:
        try:
            LAYERS[layer](plan)
        except OSError as error:
            raise OSError(f"{layer}: {error.strerror or error}") from None


def _namespaces(_plan: Mapping[str, Any]) -> None:
    _checked(_libc.unshare(_NEW_USER | _NEW_NET | _NEW_IPC | _NEW_UTS))


def _no_new_privileges(_plan: Mapping[str, Any]) -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _landlock(plan: Mapping[str, Any]) -> None:
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    # Landlock denies only the rights that a ruleset handles, so handle all that this kernel knows.
    # Unknown rights would be refused; that is why the version decides.
    files = _FILES[min(version, _NEWEST_FILES)]
    words = [files]
    words += [_ALL_NETWORK * (not plan.get("network"))] if version >= _WITH_NETWORK else []
    words += [_ALL_SCOPES] if version >= _WITH_SCOPES else []
    handled = struct.pack(f"{len(words)}Q", *words)
    size = ctypes.c_size_t(len(handled))
    rules = _syscall(_CREATE_RULESET, ctypes.c_char_p(handled), size, ctypes.c_uint32(0))
    for path in plan["execute"]:
        _allow(rules, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    for path in plan["read"]:
        _allow(rules, path, _READ_FILE | _READ_FOLDER)
    for path in plan["list"]:
        _allow(rules, path, _READ_FOLDER)
    for path in plan.get("write", ()):
        _allow(rules, path, files)
    _syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a missing path grants nothing
    # The kernel refuses rights of folders on a file.
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, descriptor)
    kind, flags = ctypes.c_int(1), ctypes.c_uint32(0)
    _syscall(_ADD_RULE, ctypes.c_int(rules), kind, ctypes.c_char_p(rule), flags)
    os.close(descriptor)


def _seccomp(_plan: Mapping[str, Any]) -> None:
    if platform.machine() not in MACHINES:
        raise OSError(f"the numbers of system calls are not known for {platform.machine()}")
    steps = _filter(*MACHINES[platform.machine()])
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(program))


def _filter(architecture: int, denied: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return a BPF program: kill foreign architectures, fail denied calls, allow the rest.

    The architecture comes first: the same number is another call elsewhere. On x86_64 the x32 ABI
    shares the architecture and sets a bit in the number; it would bypass every comparison.
    """
    steps = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for number in (*denied, *_NEWER):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOT_PERMITTED)]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


LAYERS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "namespaces": _namespaces,
    "no_new_privs": _no_new_privileges,
    "landlock": _landlock,
    "seccomp": _seccomp,
}
"""In the order in which they are applied. Landlock and seccomp need no_new_privs; seccomp denies
the `unshare` of namespaces."""


def probe() -> dict[str, str]:
    """Return each layer with the reason why it is not available, or an empty text."""
    plan: dict[str, Any] = {"execute": [], "read": [], "list": []}
    return {layer: _tried(layer, plan) for layer in LAYERS}


def _tried(layer: str, plan: Mapping[str, Any]) -> str:
    """Apply one layer in a child process; return its error or an empty text."""
    if sys.platform != "linux":
        return f"{sys.platform} does not have it"
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if layer != "namespaces":
                _no_new_privileges(plan)
            LAYERS[layer](plan)
        except (OSError, KeyError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            os.write(writer, reason.encode())
        os._exit(0)
    os.close(writer)
    reason = os.read(reader, 1000).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return reason


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _prctl(option: int, *arguments: Any) -> None:
    _checked(_libc.prctl(option, *arguments, *[0] * (4 - len(arguments))))


def _syscall(number: int, *arguments: Any) -> int:
    return _checked(_libc.syscall(number, *arguments))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _main(arguments: Sequence[str]) -> None:
    if arguments == ["--probe"]:
        sys.stdout.write(json.dumps(probe()))
        return
    try:
        apply(json.loads(arguments[0]))
    except OSError as error:
        sys.stderr.write(f"not confined: {error}\n")
        sys.exit(REFUSED)
    os.execv(arguments[1], [*arguments[1:]])  # noqa: S606  to become the program is what this is for


if __name__ == "__main__":
    _main(sys.argv[1:])
