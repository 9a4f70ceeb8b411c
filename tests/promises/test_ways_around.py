"""Ways around what protects a project from `bash`: none changes what decides what runs.

Every command here runs enclosed, in a chat without patterns of its own. After it each protected
file has its bytes, its inode and its mode, and no new file has a name that the project would read.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.builtins.shell.bash import TOOLS
from penstock.resources.project.access import AUTHORED, OPEN
from penstock.resources.project.folding import folded
from penstock.resources.project.loaded import LoadedFiles
from penstock.tools.shell import ShellSettings
from tests.kit.folders import Folder, open_folder

pytestmark = pytest.mark.serial
PYTHON = f"{sys.base_prefix}/bin/python3"
PROTECTED = (
    *("tools/honest.tool.yaml", "tools/hello.py", "tools/run.mts", "lib/data.json"),
    *("agents/a.md", "flows/f.yaml", "handbooks/h/SKILL.md", ".pi/flows/agents/b.md"),
    *("penstock.toml", "deep/d/x.skill.yaml", "my.permissions.yaml", "my.prompts.yaml"),
    *(".git/config", ".git/hooks/pre-commit", ".env", "sub/.env", ".penstock/secret.key"),
)
LOADED = LoadedFiles(["tools/run.mts", "lib/data.json"])
EVIL = "echo evil"


def python(program: str) -> str:
    """Return the command that runs a program of Python's."""
    return f"{PYTHON} - <<'END'\n{program}\nEND"


SYSTEM = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
AT = -100
"""
"""How a program calls the kernel by itself."""

WAYS: Mapping[str, str] = {
    "write": f"{EVIL} > tools/honest.tool.yaml; {EVIL} > tools/hello.py; {EVIL} > lib/data.json",
    "append": f"{EVIL} >> agents/a.md; {EVIL} >> tools/run.mts",
    "remove": "rm -rf tools agents flows lib deep penstock.toml .git .env my.*",
    "rename the folder": "mv tools .t && mkdir tools && cp .t/* tools/ && "
    f"{EVIL} >> tools/honest.tool.yaml",
    "rename the folder of a folder": f"mv deep .d; mkdir -p deep/d; {EVIL} > deep/d/x.skill.yaml",
    "rename by a program": python(
        "import os\nos.rename('tools', '.t')\nos.makedirs('tools')\n"
        "open('tools/honest.tool.yaml', 'w').write('evil')"
    ),
    "rename a new folder into its place": f"mkdir n; {EVIL} > n/honest.tool.yaml; "
    "rm -rf tools; mv n tools; mv -T n tools",
    "exchange two folders": python(
        f"{SYSTEM}\nos.makedirs('n')\nopen('n/honest.tool.yaml', 'w').write('evil')\n"
        "libc.renameat2(AT, b'n', AT, b'tools', 2)\nlibc.renameat2(AT, b'lib', AT, b'n', 2)"
    ),
    "exchange two files": python(
        f"{SYSTEM}\nopen('n.yaml', 'w').write('evil')\n"
        "libc.renameat2(AT, b'n.yaml', AT, b'tools/honest.tool.yaml', 2)\n"
        "libc.renameat2(AT, b'n.yaml', AT, b'tools/run.mts', 2)"
    ),
    "hard link": f"ln tools/honest.tool.yaml x; {EVIL} > x; ln -f x tools/honest.tool.yaml; "
    f"ln tools/run.mts y; {EVIL} > y",
    "hard link to the key": "ln .penstock/secret.key k; cat k; ln .env e; cat e",
    "symlink in the place of a folder": f"mkdir n; {EVIL} > n/a.md; rm -rf agents; "
    "ln -sfn ../n agents; ln -s n schedules; ln -sfT n tools",
    "symlink in the place of a file": f"{EVIL} > n; ln -sf ../n tools/honest.tool.yaml; "
    "ln -sf n penstock.toml; ln -sf n evil.tool.yaml; ln -sf ../n lib/data.json",
    "symlink swap": "for i in 1 2 3 4 5 6 7 8; do ln -sfn agents l; "
    f"{EVIL} > l/a.md; ln -sfn src l; {EVIL} > l/a.md; done",
    "git checkout": "git init -q /tmp/r && cd /tmp/r && mkdir tools agents && "
    f"{EVIL} > tools/honest.tool.yaml && {EVIL} > tools/evil.py && {EVIL} > agents/a.md && "
    "git add . && git -c user.name=a -c user.email=a@b commit -qm x && cd - && "
    "git --git-dir=/tmp/r/.git --work-tree=. checkout -qf; git config core.hooksPath /tmp",
    "git init": "mv .git .g; rm -rf .git; git init -q . ; git config core.fsmonitor evil",
    "tar": "mkdir -p /tmp/t/tools /tmp/t/agents; cd /tmp/t; "
    f"{EVIL} > tools/honest.tool.yaml; {EVIL} > tools/new.py; {EVIL} > agents/a.md; "
    "tar cf /tmp/t.tar tools agents; cd -; tar xf /tmp/t.tar; "
    "tar xf /tmp/t.tar --unlink-first --recursive-unlink; tar xf /tmp/t.tar --overwrite",
    "cp -a": "cp -a tools /tmp/c; "
    f"{EVIL} > /tmp/c/honest.tool.yaml; cp -a /tmp/c/. tools/; cp -a --remove-destination /tmp/c/. "
    "tools/; cp -rT --remove-destination /tmp/c agents",
    "write beside and rename, as rsync does": "for f in tools/honest.tool.yaml agents/a.md "
    f"lib/data.json; do {EVIL} > $f.tmp; mv -f $f.tmp $f; {EVIL} > .n; mv -f .n $f; done",
    "another spelling": f"{EVIL} > TOOLS/Honest.Tool.YAML; mkdir Tools Agents; {EVIL} > Tools/X.PY;"
    f"{EVIL} > Agents/x.md; {EVIL} > Penstock.toml; {EVIL} > 'penstock.toml. '; {EVIL} > .ENV; "
    f"{EVIL} > x.Tool.Yaml; mkdir .Git .PENSTOCK; {EVIL} > .Git/config; {EVIL} > .PENSTOCK/x",
    "new authored files": f"{EVIL} > evil.tool.yaml; mkdir -p a/b schedules; "
    f"{EVIL} > a/b/x.skill.yaml; {EVIL} > a/x.prompts.yaml; {EVIL} > a/x.permissions.yaml; "
    f"{EVIL} > x.schedule.yaml; {EVIL} > schedules/x.yaml; {EVIL} > tools/new.py; "
    f"{EVIL} > tools/_x.so; mkdir tools/__pycache__; {EVIL} > tools/__pycache__/hello.pyc",
    "new files of the runtime": f"{EVIL} > src/.env; {EVIL} > .env.local; {EVIL} > src/.envrc; "
    f"mkdir -p src/.penstock; {EVIL} > src/.penstock/secret.key",
    "pipes, sockets and devices": "mkfifo p tools/q.py; mknod d c 1 3; mknod tools/e.py b 7 0; "
    + python("import socket\nsocket.socket(socket.AF_UNIX).bind('s')"),
    "mount a file system": "mount -t tmpfs none tools; mount -t overlay overlay -o "
    f"lowerdir=src,upperdir=/tmp,workdir=/tmp agents; {EVIL} > tools/honest.tool.yaml",
    "bind": f"mkdir n; {EVIL} > n/honest.tool.yaml; mount --bind n tools; mount --move tools src",
    "remount": f"mount -o remount,rw penstock.toml; mount -o remount,bind,rw /; {EVIL} > "
    "penstock.toml",
    "unmount": "umount .env; umount -l .penstock; umount -l tools/honest.tool.yaml; umount -lR .; "
    f"cat .env .penstock/secret.key; {EVIL} > tools/honest.tool.yaml",
    "namespaces again": f"unshare -Urm sh -c 'umount -l .env; mount -t tmpfs none /mnt; {EVIL} > "
    "agents/a.md; mv tools .t'; unshare -Ur sh -c 'chown 1 tools; umount -l .penstock'",
    "/proc/self/root": "cd /proc/self/root; ls; cat /proc/self/root/../../etc/shadow; cd -; "
    f"{EVIL} > /proc/self/cwd/tools/honest.tool.yaml",
    "/proc of others": "for p in /proc/[0-9]*; do cat $p/root/.lower/.env $p/cwd/.env $p/environ; "
    f"{EVIL} > $p/root/$PWD/tools/honest.tool.yaml; {EVIL} > $p/cwd/penstock.toml; ls -l $p/fd; "
    "done",
    "descriptors that are open": "for f in 3 4 5 6 7 8 9 10; do ls -l /proc/self/fd/$f; "
    f"{EVIL} >&$f; {EVIL} > /proc/1/fd/$f; done",
    "a descriptor opened before": python(
        "import os\nd = os.open('tools', os.O_PATH)\nf = os.open('tools/run.mts', os.O_PATH)\n"
        "for go in (lambda: os.rename('tools', '.t'),\n"
        "  lambda: os.truncate(f'/proc/self/fd/{f}', 0),\n"
        "  lambda: open(f'/proc/self/fd/{f}', 'w').write('evil'),\n"
        "  lambda: os.open('honest.tool.yaml', os.O_WRONLY | os.O_TRUNC, dir_fd=d),\n"
        "  lambda: os.open('new.py', os.O_WRONLY | os.O_CREAT, dir_fd=d)):\n"
        "  try: go()\n  except OSError as e: print(e)"
    ),
    "chmod and chown": "chmod -R 0 tools agents lib; chmod 777 penstock.toml tools; "
    "chown -R 1 tools; chmod u+s tools/hello.py; chattr +i tools",
    "attributes and capabilities": "setfattr -n user.x -v y tools/run.mts; setcap cap_sys_admin+ep "
    "src/a.py; "
    + python(
        "import os\nfor n in ('user.overlay.opaque', 'security.capability', 'trusted.x'):\n"
        "  for f in ('tools', 'src', 'tools/hello.py'):\n"
        "    try: os.setxattr(f, n, b'y')\n    except OSError as e: print(e)"
    ),
    "times": "touch -d 2000-01-01 tools/hello.py tools/honest.tool.yaml lib/data.json tools",
    "ptrace": python(
        f"{SYSTEM}\nprint(libc.ptrace(16, 1, 0, 0), libc.ptrace(16902, 1, 0, 0))\n"
        "print(libc.syscall(310, 1, 0, 0, 0, 0, 0), libc.syscall(311, 1, 0, 0, 0, 0, 0))\n"
        "try: open('/proc/1/mem', 'r+b')\nexcept OSError as e: print(e)"
    ),
    "processes that stay": f"setsid sh -c 'sleep 0.3; {EVIL} > tools/honest.tool.yaml; {EVIL} > "
    "late.tool.yaml' >/dev/null 2>&1 & "
    f"nohup sh -c 'while :; do mv tools .t; {EVIL} > x.tool.yaml; done' >/dev/null 2>&1 &",
    "signals": "kill -9 1; kill -9 $PPID; kill -STOP -1",
    "from another folder": f"cd tools && mv ../tools ../.t; {EVIL} > honest.tool.yaml; {EVIL} > "
    "../agents/a.md; cd ../.t && touch evil.py",
    "truncate and sparse": "truncate -s 0 tools/honest.tool.yaml; truncate -s 5G tools/run.mts; "
    "fallocate -l 1 agents/a.md; truncate -s 3G sparse.tool.yaml",
    "io_uring, handles and new mounts": python(
        f"{SYSTEM}\nprint(libc.syscall(425, 4, ctypes.create_string_buffer(120)))\n"
        "print(libc.syscall(303, AT, b'.env', ctypes.create_string_buffer(200), "
        "ctypes.create_string_buffer(8), 0))\n"
        "print(libc.syscall(428, AT, b'.', 1), libc.syscall(429, 0, b'', 0, b'tools', 0), "
        "libc.syscall(430, b'overlay', 0), libc.syscall(155, b'.', b'.'), libc.chroot(b'src'))"
    ),
    "whiteouts by hand": "rm -rf agents flows; mknod agents c 0 0; mknod penstock.toml c 0 0; "
    "rm -rf tools; mkdir tools; rm -rf lib; echo x > lib",
    "a folder in the place of a file": "rm -f penstock.toml tools/run.mts; mkdir -p penstock.toml "
    "tools/run.mts; rmdir src/gen; echo x > agents; echo x > flows",
    "names of other bytes": f"{EVIL} > $(printf 'x\\377.tool.yaml'); mkdir $(printf 'b\\376'); "
    f"{EVIL} > $(printf 'b\\376')/x.skill.yaml",
    "a move through the temporary folder": "mv tools /tmp/t; mv agents /tmp/a; "
    f"{EVIL} > /tmp/t/honest.tool.yaml; mv /tmp/t tools; mv /tmp/a agents",
    "sed, ed and tee": "sed -i s/./evil/ tools/* agents/* lib/data.json penstock.toml; "
    "echo evil | tee tools/hello.py lib/data.json; dd if=/dev/zero of=tools/run.mts count=1",
}


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    folder = await open_folder(
        tmp_path / "project", *TOOLS, shell=ShellSettings(is_on=True), loaded=LOADED
    )
    for name in PROTECTED:
        place = folder.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"SECRET of {name}\n")
    return folder


def marks(root: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Return what tells whether a file is the same: its bytes, inode, mode and time."""
    found = {}
    for name in PROTECTED:
        place = root / name
        seen = place.lstat()
        found[name] = (place.read_bytes(), seen.st_ino, seen.st_mode, seen.st_mtime_ns)
    return found


def authored(root: Path) -> set[str]:
    """Return every name that the project would read, or hide, in whatever spelling."""
    every = set()
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name).relative_to(root).as_posix()
            is_theirs = any(each.fits(folded(path)) for each in AUTHORED) or OPEN.hides(path)
            if is_theirs or folded(path).startswith(".git"):
                every.add(path)
    return every


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_around(folder: Folder, way: str) -> None:
    """Shows "protected paths and their parents are read-only, new authored files refused"."""
    before, names = marks(folder.root), authored(folder.root)
    found = await folder.call("bash", command=WAYS[way], timeout=10)
    assert found.ok, found
    assert marks(folder.root) == before
    assert authored(folder.root) == names
    said = found.output["stdout"] + found.output["stderr"]
    assert not any(f"SECRET of {each}" in said for each in PROTECTED if OPEN.hides(each))
    assert (folder.root / "README.md").read_text() == "README.md\n"


async def test_there_are_as_many_ways_as_were_asked_for() -> None:
    assert len(WAYS) >= 30
