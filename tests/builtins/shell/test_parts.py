"""A command line taken apart as far as quotes go."""

import pytest

from penstock.builtins.shell.parts import parts


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


def test_a_long_line_takes_no_time() -> None:
    assert len(parts("a;" * 50_000)) == 50_000
    assert parts("A='" * 30_000)
