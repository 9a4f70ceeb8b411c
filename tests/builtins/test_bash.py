"""`bash`: its results, and the commands that it refuses before a shell starts."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.bash import MAX_BYTES, TOOLS, check_denied, fits, parts
from penstock.core.call_errors import NotPermitted
from penstock.resources.project.access import OPEN
from penstock.tools.shell import OFF, ShellSettings
from tests.kit.project_folder import Folder, G, open_folder

ON = ShellSettings(is_on=True)
REFUSED = "command refused by bash.deny pattern"
NOT_WRITABLE = 'is not writable for agent "g". access.write: src/gen/**.'


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    return await open_folder(tmp_path / "project", *TOOLS, shell=ON)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rm -rf build", f'{REFUSED} "rm -rf *" (matched "rm -rf build").'),
        ("ls && rm -rf x", f'{REFUSED} "rm -rf *" (matched "rm -rf x").'),
        ("A=1 rm   -rf x", f'{REFUSED} "rm -rf *" (matched "rm -rf x").'),
        ("git push origin", f'{REFUSED} "git push*" (matched "git push origin").'),
        ("echo curly", f'{REFUSED} "curl" (matched "echo curly").'),
        ("echo x > src/a.py", f'"src/a.py" {NOT_WRITABLE}'),
        ("echo x | tee src/gen/a src/a.py", f'"src/a.py" {NOT_WRITABLE}'),
        ("echo x >> ../out", '"../out" is outside the project.'),
        ("echo x > .env", '".env" is protected.'),
    ],
)
async def test_a_forbidden_command_is_refused(folder: Folder, command: str, words: str) -> None:
    """G9 to G12."""
    assert await folder.refusal("bash", G, command=command) == ("NOT_PERMITTED", words)
    assert (folder.root / "src/a.py").read_text() == "src/a.py\n"


@pytest.mark.programs
@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("echo rm -rf x", "rm -rf x\n"),
        ("echo x | tee src/gen/a", "x\n"),
        ("echo y > src/gen/b; cat src/gen/b 2>&1", "y\n"),
        ("git pull 2> /dev/null || echo tried", "tried\n"),
    ],
)
async def test_an_allowed_command_runs(folder: Folder, command: str, stdout: str) -> None:
    """G10, G12."""
    output = await folder.output("bash", G, command=command)
    assert output == {"exitCode": 0, "stdout": stdout, "stderr": "", "truncated": False}


async def test_bash_is_off_by_default(tmp_path: Path) -> None:
    """G13."""
    folder = await open_folder(tmp_path, *TOOLS, shell=OFF)
    assert await folder.refusal("bash", command="ls") == (
        "NOT_PERMITTED",
        "bash is switched off in this project (set shell = true under [flows]).",
    )


@pytest.mark.programs
@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("no-such-command", 127)]
)
async def test_a_nonzero_exit_code_is_not_a_failure(
    folder: Folder, command: str, code: int
) -> None:
    """§13.2: "not 0 is still `success`"."""
    assert (await folder.output("bash", command=command))["exitCode"] == code


@pytest.mark.programs
async def test_long_output_keeps_its_first_and_last_half(folder: Folder) -> None:
    """§13.2: "each stream 50 KB, first and last half"."""
    output = await folder.output("bash", command="seq 1 20000; echo end >&2")
    stdout = output["stdout"]
    assert stdout.startswith("1\n2\n")
    assert stdout.endswith("19999\n20000\n")
    assert MAX_BYTES < len(stdout) < MAX_BYTES + 50
    assert (output["truncated"], output["stderr"]) == (True, "end\n")


@pytest.mark.programs
@pytest.mark.slow("a second is the shortest timeout")
async def test_a_command_that_takes_too_long_is_stopped(folder: Folder) -> None:
    found = await folder.call("bash", command="echo begun; sleep 100", timeout=1)
    assert found.status == "timeout"
    assert found.error is not None
    assert found.error.message == "the command was stopped after 1 s"
    assert found.error.details == {"stdout": "begun\n", "stderr": ""}


@pytest.mark.programs
async def test_the_sandbox_holds_where_the_trip_wires_do_not(folder: Folder) -> None:
    """§12.3: "the project is readable, writable only below the literal prefixes"."""
    command = "sh -c 'echo x > src/a.py'; cat README.md .env; cat /etc/shadow; ls ~ | wc -l"
    output = await folder.output("bash", G, command=command)
    assert output["stdout"] == "README.md\n0\n"
    assert "cannot create src/a.py: Read-only file system" in output["stderr"]
    assert "/etc/shadow: No such file" in output["stderr"]
    assert (folder.root / "src/a.py").read_text() == "src/a.py\n"


@pytest.mark.programs
async def test_an_agent_without_patterns_writes_what_is_not_protected(folder: Folder) -> None:
    for name in (".git", "agents"):
        (folder.root / name).mkdir()
    command = "echo x > new; echo x > .git/config; echo x > agents/x.md"
    output = await folder.output("bash", OPEN, command=command)
    assert (folder.root / "new").read_text() == "x\n"
    assert output["stderr"].count("Read-only file system") == 2


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"command": ""},
        {"command": "ls", "timeout": 0},
        {"command": "ls", "timeout": 601},
        {"command": "ls", "cwd": "src"},
        {"command": "a\0b"},
        {"command": "\ud800"},
    ],
)
async def test_invalid_input_is_refused(folder: Folder, input: dict[str, Any]) -> None:
    assert (await folder.call("bash", **input)).status == "validation_error"


def test_it_asks_for_its_own_permission() -> None:
    """§13.1: "`project.bash`"."""
    spec = TOOLS[0].spec
    assert spec.requires_permissions == {"project.bash"}
    assert (spec.is_offered, spec.exclusive, spec.timeout_ms) == (True, "bash", 630_000)


@pytest.mark.programs
async def test_ordinary_work_reaches_the_project(folder: Folder) -> None:
    command = (
        "mkdir -p build/deep && echo 1 > build/deep/o && chmod 755 build/deep/o"
        " && ln -s deep build/l && rm README.md && mv docs notes"
        " && touch -d 2001-01-01 src/a.py && truncate -s 1G big"
    )
    output = await folder.output("bash", command=command)
    assert output == {"exitCode": 0, "stdout": "", "stderr": "", "truncated": False}
    root = folder.root
    assert (root / "build/l/o").read_text() == "1\n"
    assert (root / "build/deep/o").stat().st_mode & 0o777 == 0o755
    assert sorted(each.name for each in (root / "notes").iterdir()) == ["sub", "x.md"]
    assert not (root / "docs").exists()
    assert not (root / "README.md").exists()
    assert (root / "src/a.py").stat().st_mtime == 978307200
    assert ((root / "big").stat().st_size, (root / "big").stat().st_blocks < 100) == (1 << 30, True)


@pytest.mark.programs
async def test_changes_to_protected_files_are_listed_and_dropped(folder: Folder) -> None:
    command = "mkdir tools && echo x > tools/new.py && echo x > y.tool.yaml && echo x > free"
    output = await folder.output("bash", command=command)
    assert output["refused"] == ['"tools/new.py" is protected.', '"y.tool.yaml" is protected.']
    assert sorted(each.name for each in folder.root.iterdir()) == sorted(
        [".env", "README.md", "docs", "free", "src", "tests", "tools"]
    )
    output = await folder.output("bash", command="for i in $(seq 30); do echo > $i.tool.yaml; done")
    assert output["refused"][20:] == ["10 more changes were refused."]


@pytest.mark.programs
async def test_its_own_patterns_bind_an_agent_exactly(folder: Folder) -> None:
    """`access.write: [src/gen/*.txt]` is the same for `write` and for `bash`."""
    access = replace(G, write=("src/gen/*.txt",))
    command = "echo x > src/gen/a.txt; sh -c 'echo x > src/gen/a.py'"
    output = await folder.output("bash", access, command=command)
    why = 'is not writable for agent "g". access.write: src/gen/*.txt.'
    assert output["refused"] == [f'"src/gen/a.py" {why}']
    assert [each.name for each in (folder.root / "src/gen").iterdir()] == ["a.txt"]


@pytest.mark.programs
@pytest.mark.slow("a second is the shortest timeout")
async def test_changes_of_a_late_command_are_applied(folder: Folder) -> None:
    found = await folder.call(
        "bash", command="echo x > new; echo > x.tool.yaml; sleep 9", timeout=1
    )
    assert found.error is not None
    assert found.error.details is not None
    assert found.error.details["refused"] == ['"x.tool.yaml" is protected.']
    assert (folder.root / "new").read_text() == "x\n"


@pytest.mark.programs
async def test_a_variable_file_at_any_depth_and_its_other_names_are_not_there(
    folder: Folder,
) -> None:
    root = folder.root
    for name in ("src/.env", "docs/sub/.env.local", ".penstock/secret.key"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("SECRET\n")
    (root / "key").hardlink_to(root / ".penstock/secret.key")
    (root / "docs/plain").hardlink_to(root / "src/.env")
    output = await folder.output("bash", command="cat src/.env docs/sub/.env.local key docs/plain")
    assert output["stdout"] == ""


@pytest.mark.parametrize(
    ("command", "pattern", "matched"),
    [
        ("rm -rf build", "rm -rf *", "rm -rf build"),
        ("ls && rm -rf x", "rm -rf *", "rm -rf x"),
        ("A=1 rm   -rf x", "rm -rf *", "rm -rf x"),
        ("git push origin", "git push*", "git push origin"),
        ("git push", "git push*", "git push"),
        ("echo curly", "curl", "echo curly"),
        ("ls; echo $(curl x)", "curl", "curl x"),
    ],
)
def test_a_denied_command_names_the_pattern(command: str, pattern: str, matched: str) -> None:
    """G9, G10, G11."""
    with pytest.raises(NotPermitted) as error:
        check_denied(G.deny, command, parts(command))
    said = f'command refused by bash.deny pattern "{pattern}" (matched "{matched}").'
    assert str(error.value) == said


@pytest.mark.parametrize("command", ["echo rm -rf x", "git pull", "rm -r x", "ls 'a; rm -rf'"])
def test_a_command_without_a_matching_pattern_is_allowed(command: str) -> None:
    """G10."""
    check_denied(G.deny, command, parts(command))
    more = f"{command}; curl x"
    with pytest.raises(NotPermitted, match=r'matched "curl x"'):
        check_denied(G.deny, more, parts(more))


def test_a_pattern_may_be_about_the_whole_line() -> None:
    with pytest.raises(NotPermitted, match=r'matched "a \| sh"'):
        check_denied(("* | sh",), "a  |  sh", parts("a | sh"))
    check_denied(("",), "a", parts("a"))


@pytest.mark.parametrize(
    ("pattern", "text", "is_it"),
    [
        ("a*", "a", True),
        ("*a*", "bab", True),
        ("a*a", "a", False),
        ("a*b*c", "a/b\nc", True),
        ("a*b*c", "acb", False),
        ("a?", "ab", False),
        ("*" * 50 + "b", "a" * 5000, False),
    ],
)
def test_a_star_is_any_text(pattern: str, text: str, *, is_it: bool) -> None:
    assert fits(pattern, text) is is_it


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("ls", ["ls"]),
        ("ls && rm -rf x", ["ls", "rm -rf x"]),
        ("a | b || c ; d & e\nf", ["a", "b", "c", "d", "e", "f"]),
        ("A=1 rm   -rf x", ["rm -rf x"]),
        ("A='1 2' B=\"x y\" C+=3 rm\t-rf x", ["rm -rf x"]),
        ("A=1", ["A=1"]),
        ("echo 'a; b' \"c && d\"", ["echo 'a; b' \"c && d\""]),
        ("echo a\\;b", ["echo a\\;b"]),
        ("echo $(rm x) y", ["echo", "rm x", "y"]),
        ('echo "a $(rm x; ls) b; c" ; d', ['echo "a', "rm x", "ls", 'b; c"', "d"]),
        ("echo `rm x` y", ["echo", "rm x", "y"]),
        ('echo "`rm x` ; y"', ['echo "', "rm x", '; y"']),
        ("(rm x; ls)", ["rm x", "ls"]),
        ('"$( (a; b); c )" ; d', ['"', "a", "b", "c", '"', "d"]),
        ("echo '$(rm x)'", ["echo '$(rm x)'"]),
        ("echo 'open", ["echo 'open"]),
        ("", []),
        (" ; ;; ", []),
        ("echo \\", ["echo \\"]),
    ],
)
def test_a_line_is_cut_where_a_command_ends(command: str, texts: list[str]) -> None:
    """§12.3: "cut into parts at `|`, `||`, `&&`, `;`, `&`, newline, `$(`, backquote"."""
    assert [part.text for part in parts(command)] == texts


@pytest.mark.parametrize(
    ("command", "targets"),
    [
        ("echo x > src/a.py", ["src/a.py"]),
        ("echo x >src/a.py", ["src/a.py"]),
        ("echo x>>a", ["a"]),
        ("echo x 2> err >| out", ["err", "out"]),
        ("cmd &> all", ["all"]),
        ("cmd >& all", ["all"]),
        ("cmd 2>&1 >&2 >&-", []),
        ("cmd > /dev/null 2> /dev/stderr > /dev/fd/3", []),
        ("echo '>' \"> x\" \\> y", []),
        ("echo x > 'a b' ; ls > \"c\"d", ["a b", "cd"]),
        ("> $OUT echo", ["$OUT"]),
        ("cat < in <<EOF", []),
        ("echo x | tee a -a b", ["a", "b"]),
        ("A='x y' /usr/bin/tee a", ["a"]),
        ("echo tee a", []),
        ("echo $(ls > inner)", ["inner"]),
        ("cat <> both", ["both"]),
        ("a > x;b", ["x"]),
    ],
)
def test_the_files_that_are_written_are_known(command: str, targets: list[str]) -> None:
    """§12.3: "targets of `>`, `>>` and `tee`"."""
    assert [target for part in parts(command) for target in part.targets] == targets


@pytest.mark.chaos
def test_a_long_line_is_fast() -> None:
    assert len(parts("a;" * 50_000)) == 50_000
    assert parts("A='" * 30_000)
