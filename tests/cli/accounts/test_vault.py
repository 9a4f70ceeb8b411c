"""Secrets on the command line."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
KEYS = ["A" * 43, "B" * 42 + "A"]


@pytest.fixture
def give(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Set a secret whose value comes from stdin."""

    def give(place: str, key: str, value: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(value))
        return run("vault", "set", place, key)

    return give


def test_a_secret_is_set_from_stdin_and_listed_without_itself(
    give: Run, run: Run, run_json: Callable[..., Any]
) -> None:
    """`set`: "value from stdin or a hidden prompt, never from an argument"."""
    assert give("shared:team", "token", "s3same-open\n") == (
        0,
        "token is set for shared:team\n",
        "",
    )
    assert give("profile", "token", "s3same-open")[0] == 0
    listed = run_json("vault", "list")["secrets"]
    assert [(each["scope"], each["scope_id"]) for each in listed] == [
        ("profile", "local"),
        ("shared", "team"),
    ]
    code, out, err = run("vault", "list", "shared:team")
    assert (code, err) == (0, "1 secret\n")
    assert "token" in out
    assert "s3same" not in out


def test_a_deleted_secret_is_gone_and_a_missing_one_is_an_error(give: Run, run: Run) -> None:
    give("profile:ann", "token", "s3same-open")
    assert run("vault", "delete", "profile:ann", "token") == (
        0,
        "token is deleted for profile:ann\n",
        "",
    )
    code, out, err = run("vault", "delete", "profile:ann", "token")
    assert (code, out, err) == (1, "", "there is no secret 'token' for profile:ann\n")


def test_a_short_secret_is_stored_with_a_warning(give: Run) -> None:
    code, out, result = give("profile", "pin", "123\n")
    assert (code, out) == (0, "pin is set for profile:local\n")
    assert result.startswith("Warning: a secret under 4 bytes cannot be redacted")


@pytest.mark.parametrize("place", ["session:x", "shared", "shared:", "x", ""])
def test_an_unknown_scope_is_wrong_usage(give: Run, place: str) -> None:
    assert give(place, "token", "s3same-open")[0] == 2


def test_a_refused_value_is_not_repeated(give: Run) -> None:
    code, _, result = give("profile", "token", "x" * 70_000)
    assert code == 1
    assert "value: has 70000 bytes; at most 65536 are allowed" in result
    assert "xxx" not in result


def test_rotation_seals_all_with_the_first_key(
    give: Run, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", KEYS[0])
    give("profile", "token", "s3same-open")
    assert not (project / ".penstock" / "secret.key").exists()
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", KEYS[1])
    code, _, err = run("vault", "rotate")
    assert code == 1
    assert "cannot be decrypted with the present keys, so nothing was changed" in err
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", f"{KEYS[1]},{KEYS[0]}")
    assert run("vault", "rotate") == (0, "re-encrypted 1 secret with the first key\n", "")
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", KEYS[1])
    assert run("vault", "rotate")[0] == 0


def test_a_key_file_that_others_can_read_stops_the_command(give: Run, project: Path) -> None:
    give("profile", "token", "s3same-open")
    (project / ".penstock" / "secret.key").chmod(0o644)
    code, _, result = give("profile", "token", "s3same-open")
    assert code == 1
    assert "others may read it" in result


def test_every_command_prints_its_result_as_json(
    run_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--json` everywhere: one JSON value on stdout."""
    monkeypatch.setattr("sys.stdin", io.StringIO("s3same-open"))
    place = {"scope": "shared", "scope_id": "team", "key": "token"}
    assert run_json("vault", "set", "shared:team", "token") == place
    assert run_json("vault", "rotate") == {"sealed": 1}
    assert run_json("vault", "delete", "shared:team", "token") == place


def test_all_shared_secrets_are_listed(give: Run, run_json: Callable[..., Any]) -> None:
    """`penstock vault list [SCOPE[:ID]]`: a scope without an id lists all of its kind."""
    for place in ("shared:team", "shared:all", "profile"):
        give(place, "token", "s3same-open")
    listed = run_json("vault", "list", "shared")["secrets"]
    assert [each["scope_id"] for each in listed] == ["all", "team"]
