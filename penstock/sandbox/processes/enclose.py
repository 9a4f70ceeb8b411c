"""Runs a shell command in namespaces of its own, with bounded memory and processes.

`python -I -m penstock.sandbox.processes.enclose PLAN` gives the command a root of its own with the
system's programs, the project and a home, nothing else; it sees only its own processes, and the
network only if the plan allows it. Landlock then restricts where it may write. If any part cannot
be set up, nothing runs, and the reason is reported.

Inside, the project is an overlayfs mount: the command reads the real files, and its changes go to
`changes/upper` of its scratch folder; the caller takes over the permitted ones. overlayfs does not
show mounts inside the project; each is bound read-only. Protected files are read-only inside, too,
so that a command learns at once what would be refused in the end.

The first process inside (pid 1) counts the memory, processes and threads of the others five times a
second; beyond the bounds of the plan it ends, and the kernel kills the whole pid namespace with it.
The limits of the system hold as well: data of each process, and, unless penstock runs as root, the
number of processes. Proof: tests/sandbox/processes/test_enclose.py.
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from penstock.sandbox.processes.confine import LAYERS

_TEMPORARY, _SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108  private to the namespace
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix")
_SETTINGS = (
    *("alternatives", "bash.bashrc", "ca-certificates", "group", "hosts", "inputrc"),
    *("java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki"),
    *("profile", "protocols", "python3", "resolv.conf", "services", "shells", "ssl", "terminfo"),
)
"""The entries of /etc that programs need; the rest may hold secrets."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_NEW_USER, _NEW_MOUNTS, _NEW_PROCESSES = 0x10000000, 0x00020000, 0x20000000
_NEW_IPC, _NEW_UTS, _NEW_NET = 0x08000000, 0x04000000, 0x40000000
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_DEEP, _PRIVATE, _DETACH = 16384, 1 << 18, 2
_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""Flags that a remount must keep: the kernel refuses to drop them in a user namespace."""
_LOWER, _CHANGES, _WHOLE = ".lower", ".changes", ".whole"
"""Where mounts are prepared in the new root; unmounted before the command starts."""
_PR_SET_PDEATHSIG, _PR_SET_SECUREBITS = 1, 28
_NO_ROOT = 0x3
_ENDED = {signal.SIGCHLD}
_LOOK_SECONDS = 0.2
"""Seconds between two counts of memory, processes and threads."""
_MARGIN = 2
"""Factor of RLIMIT_NPROC over the bound: the count then ends the command with a clear message."""
_THREADS = 17
"""Index of num_threads among the fields of /proc/PID/stat after the name."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def enclose(plan: Mapping[str, Any]) -> NoReturn:
    """Run the command of a plan and report how it ended."""
    fcntl.fcntl(plan["report"], fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    with _refusing(plan):
        _follow(plan["parent"])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _enter_namespaces(network=plan["network"])
        first = os.fork()
        if not first:
            _begin(plan)
    os.waitpid(first, 0)
    os._exit(0)


def _begin(plan: Mapping[str, Any]) -> NoReturn:
    """Run as pid 1 of the namespace: when it ends, the kernel kills all others."""
    with _refusing(plan):
        _call(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        _make_root(plan)
        # Blocked before the fork: a SIGCHLD that comes before `sigtimedwait` stays pending.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDED)
        command = os.fork()
        if not command:
            _become(plan)
    while True:
        signal.sigtimedwait(_ENDED, _LOOK_SECONDS)
        if (code := _reaped(command)) is not None:
            _report(plan, {"code": code})
            os._exit(0)
        if over := _over(plan):
            _report(plan, {"code": -signal.SIGKILL, "over": f"\npenstock stopped this: {over}\n"})
            os._exit(0)


def _reaped(command: int) -> int | None:
    """Reap all ended children; return the exit code of the command if it is among them."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _over(plan: Mapping[str, Any]) -> str:
    """Return a message about the bound that the processes exceed together, or an empty text."""
    threads = memory = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end between the two reads
            # The name is in parentheses and may contain spaces and parentheses itself.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            _, resident, shared, *_ = (process / "statm").read_text().split()
            threads += int(fields[_THREADS])
            memory += (int(resident) - int(shared)) * _PAGE
    if threads > plan["processes"]:
        most = plan["processes"]
        return f"it has more than {most} processes and threads (limits.shell_processes)"
    if memory > plan["memory"]:
        return f"it has more than {plan['memory'] >> 20} MiB of memory (limits.shell_memory_mb)"
    return ""


def _become(plan: Mapping[str, Any]) -> NoReturn:
    with _refusing(plan):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDED)
        _call(_libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0))
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_DATA, plan["memory"])
        _limit(resource.RLIMIT_NPROC, _MARGIN * plan["processes"])
        home = plan["home_inside"]
        allowed = {
            "execute": ["/"],
            "read": [],
            "list": [],
            "write": [*plan["writable"], *_DEVICES, _SHARED_MEMORY, _TEMPORARY, home],
            "network": plan["network"],
        }
        LAYERS["no_new_privs"](allowed)
        LAYERS["landlock"](allowed)
        os.execve(plan["argv"][0], plan["argv"], plan["environment"])  # noqa: S606  what it is for


def _limit(kind: int, most: int) -> None:
    """Set a resource limit for each process, unless a lower one holds already."""
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, limit))


def _enter_namespaces(*, network: bool) -> None:
    user, group = os.getuid(), os.getgid()
    parts = _NEW_USER | _NEW_MOUNTS | _NEW_PROCESSES | _NEW_IPC | _NEW_UTS
    _call(_libc.unshare(parts | (0 if network else _NEW_NET)))
    # The kernel accepts `gid_map` from an unprivileged user only after this.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _make_root(plan: Mapping[str, Any]) -> None:
    root, project = Path(plan["root"]), Path(plan["project"])
    if project == Path("/"):
        raise OSError("the project is the whole system")
    _mount(None, "/", None, _DEEP | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEV, options=b"mode=755,size=64m")
    for path in (*_SYSTEM, *plan["system"]):
        _show(root, Path(path))
    for name in _SETTINGS:
        _show(root, Path("/etc", name), resolved=True)
    _make_devices(root)
    _bind(plan["tmp"], _made_folder(_in(root, _TEMPORARY)))
    _bind(plan["home"], _made_folder(_in(root, plan["home_inside"])))
    inside = _made_folder(_in(root, project))
    _lay_project(plan, root, inside)
    _made_folder(root / "proc")
    with suppress(OSError):
        _mount("proc", root / "proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    for path in plan["hidden"]:
        _hide(inside / path)
    for path in plan["kept"]:
        _freeze(inside / path)
    os.chdir(root)
    _call(_libc.pivot_root(b".", b"."))
    _call(_libc.umount2(b".", _DETACH))
    os.chdir(project)


def _lay_project(plan: Mapping[str, Any], root: Path, inside: Path) -> None:
    """Mount the project at its path, with changes in a separate folder."""
    project, writable = Path(plan["project"]), [*map(Path, plan["writable"])]
    if not writable:
        _bind(project, inside)
        _freeze(inside)
        return
    _bind(project, _made_folder(root / _LOWER))
    _bind(plan["changes"], _made_folder(root / _CHANGES))
    os.chdir(root)  # relative paths: a comma or colon in the project's path would end an option
    options = f"lowerdir={_LOWER},upperdir={_CHANGES}/upper,workdir={_CHANGES}/work,userxattr"
    _mount("overlay", inside, "overlay", _NO_SUID | _NO_DEV, options=options.encode())
    for mount in _mounts_below(project):
        _bind(mount, _in(root, mount))
        _freeze(_in(root, mount))
    if project not in writable:
        # Keep a writable view of the overlay, freeze the project, then bind the writable folders.
        _bind(inside, _made_folder(root / _WHOLE))
        _freeze(inside)
        for folder in writable:
            _bind(root / _WHOLE / folder.relative_to(project), _in(root, folder))
    for name in (_WHOLE, _CHANGES, _LOWER):
        with suppress(FileNotFoundError):
            _call(_libc.umount2(os.fsencode(root / name), _DETACH), name)
            (root / name).rmdir()


def _mounts_below(project: Path) -> list[Path]:
    """Return the mounts inside the project, the outer ones first."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    named = {line.split()[4].decode("unicode_escape").encode("latin-1") for line in lines}
    paths = [Path(os.fsdecode(each)) for each in named]
    return sorted(each for each in paths if project in each.parents)


def _show(root: Path, path: Path, *, resolved: bool = False) -> None:
    """Bind a file or folder of the system at its own path."""
    target = _in(root, path)
    if target.is_symlink() or target.exists() or not path.exists():
        return
    if path.is_symlink() and not resolved:
        _made_folder(target.parent)
        target.symlink_to(path.readlink())
        return
    source = path.resolve()
    _bind(source, _made_folder(target) if source.is_dir() else _made_file(target))


def _make_devices(root: Path) -> None:
    _made_folder(_in(root, _SHARED_MEMORY))
    for device in map(Path, _DEVICES):
        if device.exists():
            _bind(device, _made_file(_in(root, device)))
    for name, end in _LINKS.items():
        (root / "dev" / name).symlink_to(f"/proc/self/fd{end}")


def _hide(path: Path) -> None:
    if path.is_dir():
        flags = _READ_ONLY | _NO_SUID | _NO_DEV
        _mount("tmpfs", path, "tmpfs", flags, options=b"size=4k,mode=555")
    elif path.exists():
        _bind("/dev/null", path)


def _freeze(path: Path) -> None:
    """Make a file or folder read-only. It takes two mounts: a bind ignores the flag."""
    if path.exists():
        _bind(path, path)
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS
        _mount(None, path, None, _REMOUNT | _BIND | _READ_ONLY | flags)


def _in(root: Path, path: str | Path) -> Path:
    return root / Path(path).relative_to("/")


def _made_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _made_file(path: Path) -> Path:
    _made_folder(path.parent)
    path.touch()
    return path


def _bind(source: str | Path, target: Path) -> None:
    _mount(source, target, None, _BIND | _DEEP)


def _mount(
    source: str | Path | None,
    target: str | Path,
    kind: str | None,
    flags: int,
    *,
    options: bytes | None = None,
) -> None:
    texts = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    _call(_libc.mount(*texts, ctypes.c_ulong(flags), options), target)


def _follow(parent: int) -> None:
    """Die with the parent."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    # It may have ended before the call above.
    if os.getppid() != parent:
        raise OSError("the parent process has ended")


@contextmanager
def _refusing(plan: Mapping[str, Any]) -> Iterator[None]:
    """Report an error and end: the command must not run less enclosed than planned."""
    try:
        yield
    except (OSError, ValueError) as error:
        _report(plan, {"refused": str(error)})
        os._exit(1)


def _report(plan: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    os.write(plan["report"], f"{json.dumps(report)}\n".encode())


def _call(result: int, what: str | Path = "") -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(what) or None)


if __name__ == "__main__":
    enclose(json.loads(Path(sys.argv[1]).read_text()))
