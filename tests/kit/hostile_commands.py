"""Commands that try to change what runs in a project, or to read hidden files."""

import sys
from collections.abc import Mapping

PYTHON = f"{sys.base_prefix}/bin/python3"
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
    "marks that are not shown": f"{EVIL} > $(printf 'penstock\\342\\200\\215.toml'); mkdir "
    f"$(printf 'agen\\342\\200\\214ts'); {EVIL} > $(printf 'x.to\\302\\255ol.yaml')",
    "wide letters and ligatures": f"{EVIL} > \uff50enstock.toml; mkdir \uff54ools; {EVIL} > "
    f"\uff54ools/x.py; "
    f"{EVIL} > \ufb02ows; mkdir \ufb02ows; {EVIL} > x.tool\uff0eyaml",
    "letters that fold": f"mkdir tool\u017f agent\u017f; {EVIL} > tool\u017f/x.py; {EVIL} > "
    f"pen\u017ftocK.toml; "
    f"{EVIL} > x.\u017fkill.yaml",
    "composed and decomposed": f"{EVIL} > $(printf '.env.e\\314\\201'); {EVIL} > "
    "$(printf '.env.\\303\\251'); mkdir $(printf '.penstock\\342\\200\\213')",
    "dots and blanks at the end": f"mkdir 'tools.' 'agents ' '.git.'; {EVIL} > 'tools./x.py'; "
    f"{EVIL} > 'agents /x.md'; {EVIL} > 'x.tool.yaml.'; {EVIL} > '.env '; {EVIL} > '.git./config'",
    "streams": f"{EVIL} > 'penstock.toml::$DATA'; {EVIL} > 'tools:x'; {EVIL} > '.env:x'; "
    f"{EVIL} > '.git::$INDEX_ALLOCATION'; {EVIL} > 'x.tool.yaml:y'",
    "dots in the middle": f"{EVIL} > src/../tools/x.py; {EVIL} > src/./../agents/./x.md; "
    f"{EVIL} > tools/../penstock.toml; cd src; {EVIL} > ../src/../flows/x.yaml",
    "modules that Python starts with": f"for f in sitecustomize usercustomize; do {EVIL} > "
    f"tools/$f.py; {EVIL} > tools/$f.pyc; done; mkdir -p tools/__pycache__; "
    f"{EVIL} > tools/__pycache__/hello.cpython-311.pyc; {EVIL} > tools/__init__.py",
    "packages in the tools": f"mkdir -p tools/_prices/deep; {EVIL} > tools/_prices/__init__.py; "
    f"{EVIL} > tools/_prices/deep/x.py; {EVIL} > tools/_prices/x.so; ln -s ../src tools/pkg",
    "hooks of git": f"mkdir -p .git/hooks; {EVIL} > .git/hooks/post-checkout; {EVIL} > .git/index; "
    "git config --local core.hooksPath src; git config --file .git/config core.fsmonitor evil; "
    f"{EVIL} > .git/info/attributes; ln -s ../src .git/modules; {EVIL} > .git/config.worktree",
    "a file in the place of git's folder": "mv .git g; rm -rf .git; echo 'gitdir: src' > .git; "
    "git worktree add w; git submodule add ./src s",
    "copies of the runtime's folder": f"mkdir .penstock.bak; {EVIL} > .penstock.bak/secret.key; "
    f"{EVIL} > .penstock~; cp -r .penstock .penstock-old; {EVIL} > .penstock-old/x",
    "the folder above": "cd ..; mv project gone; ln -s gone project; mkdir project2; cd project2; "
    f"{EVIL} > x; rename project p ../project; mv ../project ../p; {EVIL} > ../p/tools/x.py",
    "the root of another process": "for p in /proc/[0-9]* /proc/self/task/*; do "
    f"{EVIL} > $p/root$PWD/penstock.toml; ls $p/root/.lower $p/root/.changes; "
    "cat $p/root/.lower/.env $p/root/.lower/.penstock/secret.key; done",
    "the layers of the overlay": "cat /proc/self/mountinfo | grep overlay; ls -la /.lower "
    "/.changes "
    f"/.whole; cat /.lower/.env; {EVIL} > /.changes/upper/penstock.toml; find / -name secret.key "
    "-not -path '/proc/*' -exec cat {} +",
    "a descriptor of a mount": python(
        f"{SYSTEM}\nfor number in (428, 432, 435, 442):\n  print(libc.syscall(number, AT, b'.', "
        f"1))\n"
        "for flag in (os.O_PATH, os.O_PATH | os.O_DIRECTORY):\n  d = os.open('/', flag)\n"
        "  for name in ('..', '../..', 'proc/1/root', 'proc/1/cwd'):\n"
        "    try: print(os.listdir(os.open(name, os.O_RDONLY, dir_fd=d)))\n"
        "    except OSError as e: print(e)"
    ),
    "user namespaces of its own": "unshare -Ur sh -c 'mount -t tmpfs none .; mount --bind src "
    "tools;"
    f" umount -l .env; cat .env; {EVIL} > tools/x.py'; unshare -Urmp --fork sh -c "
    "'mount -t overlay o -o lowerdir=.,upperdir=/tmp,workdir=/tmp,userxattr /mnt; cat /mnt/.env'",
    "overlay attributes": python(
        "import os\nos.makedirs('n', exist_ok=True)\n"
        "for name in ('opaque', 'redirect', 'metacopy', 'origin', 'whiteout', 'overlay.opaque'):\n"
        "  for file in ('n', 'src', 'tools', 'README.md', '.'):\n"
        "    try: os.setxattr(file, f'user.overlay.{name}', b'y' if name == 'opaque' else "
        "b'/.env')\n"
        "    except OSError as e: print(e)\n"
        "print(os.listdir('n'))"
    ),
    "bits of other rights": f"cp /bin/sh s; chmod 6755 s; chmod 2777 src; chmod 1777 src/gen; "
    f"{EVIL} "
    "> c; chmod 4777 c; setcap cap_sys_admin+ep c",
    "extended attributes": "setfattr -n user.a -v b README.md; setfattr -n user.mime_type -v x "
    "src; "
    "setfattr -n security.selinux -v x README.md; setfacl -m u:1:rwx tools agents src",
    "very deep": "d=x; i=0; while [ $i -lt 300 ]; do d=$d/x; i=$((i+1)); done; mkdir -p $d; "
    f"{EVIL} > $d/a.tool.yaml; {EVIL} > $d/.env; {EVIL} > $d/ok",
    "names with newlines and quotes": f"{EVIL} > \"$(printf 'a\\n.tool.yaml')\"; mkdir "
    f"\"$(printf 'tools\\nx')\"; {EVIL} > \"$(printf '\\n.env')\"; {EVIL} > 'x\".skill.yaml'; "
    f"{EVIL} > \"$(printf 'b\\n/../tools/x.py')\"; mkdir \"$(printf 'n\\n')\"; "
    f"{EVIL} > \"$(printf 'n\\n/.env')\"",
    "names that look like options": f"{EVIL} > ./-rf; {EVIL} > ./--no-preserve-root; mkdir ./-p; "
    f"{EVIL} > ./-p/x.tool.yaml",
    "the longest names": f"n=$(printf '%0243d' 0); {EVIL} > $n.tool.yaml; {EVIL} > .env.$n; "
    f"mkdir $n.tool.yaml; {EVIL} > $n.tool.yaml/x",
    "an enormous hole": "truncate -s 4P hole.tool.yaml; truncate -s 4P tools/run.mts; "
    "truncate -s 8E .env; fallocate -p -o 0 -l 4096 lib/data.json",
    "very many": f"mkdir m; cd m; seq 3000 | xargs touch; for i in 1 2 3; do {EVIL} > "
    f"$i.tool.yaml; "
    "done; seq 500 | sed s/$/.skill.yaml/ | xargs touch",
    "a link to what is above": f"ln -s .. up; {EVIL} > up/x; ln -s . here; {EVIL} > "
    f"here/tools/x.py; "
    f"{EVIL} > here/here/here/penstock.toml; ln -s here/agents a; {EVIL} > a/x.md",
    "a link that is absolute": f"ln -s $PWD/tools t; {EVIL} > t/x.py; ln -s /proc/self/cwd c; "
    f"{EVIL} > c/agents/x.md; ln -sfn $PWD/src flows",
    "a link in the place of a removed folder": "rm -rf src docs; ln -s tools src; ln -s agents "
    "docs; "
    f"{EVIL} > src/x.py; {EVIL} > docs/x.md",
    "links swapped by another process": "mkdir real; (for i in $(seq 200); do ln -sfn ../agents "
    f"real/l; ln -sfn ../src real/l; done) & for i in $(seq 50); do {EVIL} > real/l/x.md; done; "
    f"wait",
    "hard links of new files": f"{EVIL} > n; ln n m.tool.yaml; ln n tools/x.py; ln n .env.new; "
    "ln n agents/x.md; rm n",
    "a rename in two steps": "mv tools src/t; mv src/t/honest.tool.yaml src/t/h; "
    f"{EVIL} >> src/t/h; mv src/t/h src/t/honest.tool.yaml; mv src/t tools; mv -n src/t/* tools/",
    "renames that exchange and that hide": python(
        f"{SYSTEM}\nos.makedirs('n', exist_ok=True)\n"
        "for flag in (1, 2, 4):\n"
        "  for old, new in ((b'n', b'agents'), (b'README.md', b'penstock.toml'), (b'src', "
        "b'lib')):\n"
        "    print(flag, libc.renameat2(AT, old, AT, new, flag))\n"
        "libc.renameat2(AT, b'src', AT, b'README.md', 2)\n"
        "libc.renameat2(AT, b'src', AT, b'README.md', 2)"
    ),
    "unnamed files that get a name": python(
        f"{SYSTEM}\nd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o777)\nos.write(d, b'evil')\n"
        "for name in (b'tools/x.py', b'x.tool.yaml', b'.env.x', b'agents/x.md'):\n"
        "  print(libc.linkat(AT, f'/proc/self/fd/{d}'.encode(), AT, name, 0x400))"
    ),
    "maps of files": python(
        "import mmap, os\nfor name in ('tools/run.mts', 'lib/data.json', 'penstock.toml'):\n"
        "  for flag in (os.O_RDWR, os.O_RDONLY):\n"
        "    try:\n      m = mmap.mmap(os.open(name, flag), 0)\n      m[:4] = b'evil'\n"
        "    except (OSError, TypeError, ValueError) as e: print(e)"
    ),
    "space made and given back": "fallocate -z -o 0 -l 4 tools/run.mts; fallocate -i -o 0 -l 4096 "
    "lib/data.json; cp --reflink=always README.md penstock.toml; dd of=lib/data.json conv=notrunc "
    "if=README.md",
    "attributes of inodes": "chattr +i tools/hello.py; chattr -R +a tools; chattr +F src; chattr "
    "+c "
    "agents; chattr +i README.md",
    "archives of Python": f"{EVIL} > tools.zip; {EVIL} > tools/x.pth; {EVIL} > tools/x.pyd; "
    f"{EVIL} > tools/deep.so; mkdir tools/e.egg; {EVIL} > tools/e.egg/x.py",
    "what a killed process left": f"{EVIL} > .x.penstock-1-1; {EVIL} > "
    f"tools/.hello.py.penstock-1-1; "
    f"{EVIL} > .env.penstock-1-1; ln -sf ../tools/hello.py src/.a.penstock-1-2",
    "schedules and handbooks": f"mkdir -p handbooks/h/deep schedules; {EVIL} > handbooks/h/a.md; "
    f"{EVIL} > handbooks/h/deep/b.md; {EVIL} > schedules/x.yaml; {EVIL} > src/x.schedule.yaml",
    "time of the disk": "touch -d @-1 tools/hello.py; touch -d @9999999999 penstock.toml; touch -h "
    "-d 2001-01-01 agents; touch -r README.md lib/data.json",
}
