"""Settings of the operator, and the errors for wrong ones."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from penstock.app.settings import FIXED_LIMITS, Settings, load
from penstock.core.errors import ConfigError
from penstock.core.limits import Limits


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings do not depend on the environment of the tests."""
    monkeypatch.delenv("PENSTOCK_DATA_DIR", raising=False)


def written(root: Path, text: str, **overrides: Any) -> Settings:
    (root / "penstock.toml").write_text(text)
    return load(root, **overrides)


def test_a_project_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.data_path == tmp_path / ".penstock"
    assert settings.database == f"sqlite:///{tmp_path}/.penstock/penstock.db"
    assert settings.blob_place == f"{tmp_path}/.penstock/blobs"
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)
    assert settings.models.default == "offline"
    assert settings.limits == Limits()


PLACES = [
    ("data_dir = 'd'", "sqlite:///{root}/d/penstock.db", "{root}/d/blobs"),
    ("database_url = 'sqlite:///x.db'", "sqlite:///{root}/x.db", "{root}/.penstock/blobs"),
    ("database_url = 'sqlite:////x/y.db'", "sqlite:////x/y.db", "{root}/.penstock/blobs"),
    ("database_url = 'sqlite:///:memory:'", "sqlite:///:memory:", "{root}/.penstock/blobs"),
    ("database_url = 'postgresql://h/d'", "postgresql://h/d", "{root}/.penstock/blobs"),
    ("blobs = 'b'", "sqlite:///{root}/.penstock/penstock.db", "{root}/b"),
    ("blobs = 's3://b/p'", "sqlite:///{root}/.penstock/penstock.db", "s3://b/p"),
]


@pytest.mark.parametrize(("text", "database", "blobs"), PLACES)
def test_paths_are_relative_to_the_project(
    tmp_path: Path, text: str, database: str, blobs: str
) -> None:
    settings = written(tmp_path, text)
    assert settings.database == database.format(root=tmp_path)
    assert settings.blob_place == blobs.format(root=tmp_path)


def test_the_program_wins_over_the_environment_and_this_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[server]\nhost = 'file'\nport = 1\n[limits]\nstreams = 1\n"
    monkeypatch.setenv("PENSTOCK_SERVER__HOST", "environment")
    monkeypatch.setenv("PENSTOCK_SERVER__PORT", "2")
    monkeypatch.setenv("PENSTOCK_SERVER__CORS_ORIGINS", '["http://a"]')
    settings = written(tmp_path, text, server={"port": 3})
    assert settings.server.host == "environment"
    assert settings.server.port == 3
    assert settings.server.cors_origins == ("http://a",)
    assert settings.limits.streams == 1


def test_digits_in_a_text_setting_stay_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_MODELS__DEFAULT", "7")
    monkeypatch.setenv("PENSTOCK_DATA_DIR", "8")
    settings = load(tmp_path)
    assert (settings.models.default, settings.data_dir) == ("7", Path("8"))


@pytest.mark.parametrize("name", ["request_wait_seconds", "blob_url_seconds"])
def test_a_setting_of_the_server_is_not_a_limit(tmp_path: Path, name: str) -> None:
    settings = written(tmp_path, f"[server]\n{name} = 5\n[limits]\nstreams = 7\n")
    assert getattr(settings.server, name) == 5
    assert settings.limits == Limits(streams=7)
    with pytest.raises(ConfigError, match=name):
        written(tmp_path, f"[limits]\n{name} = 5\n")


MODEL = '[models]\ndefault = "fast"\n[models.fast]\nprovider = "openai"\nmodel = "m"\n'


WORD = "sesame-open-now"
GONE = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "MY_KEY")


@pytest.mark.parametrize(
    ("variable", "entry", "name"),
    [
        ("MY_KEY", 'provider = "openai"\nmodel = "m"\napi_key_env = "MY_KEY"', "fast"),
        ("OPENAI_API_KEY", 'provider = "openai"\nmodel = "m"', "fast"),
        ("OPENAI_API_KEY", 'provider = "openai-responses"\nmodel = "m"', "fast"),
        ("OPENAI_API_KEY", 'provider = "openai"\napi = "openai-responses"\nmodel = "m"', "fast"),
        ("OPENAI_API_KEY", "", "openai:gpt-5-mini"),
        ("ANTHROPIC_API_KEY", "", "anthropic:claude-haiku-5-5"),
    ],
)
def test_a_model_reads_its_key_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, entry: str, name: str
) -> None:
    """`api_key_env` names the variable; without it the one that the provider usually has counts."""
    for each in GONE:
        monkeypatch.delenv(each, raising=False)
    text = f'[models]\ndefault = "{name}"\n' + (f"[models.fast]\n{entry}\n" if entry else "")
    with pytest.raises(ConfigError, match=f"needs a key: set the environment variable {variable}$"):
        written(tmp_path, text).find_models().get()
    monkeypatch.setenv(variable, WORD)
    settings = written(tmp_path, text)
    card = settings.find_models().get().card
    assert card.model_id == name
    assert (card.api == "openai-responses") == ("responses" in entry)
    assert WORD not in f"{settings!r}{settings}{settings.model_dump_json()}"


def test_an_invalid_key_is_reported_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{WORD}\n")
    with pytest.raises(ConfigError, match="check the key in the environment variable OPENAI_API_K"):
        written(tmp_path, "").find_models().get("openai:gpt-5-mini")


def test_only_the_variable_that_the_file_names_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", WORD)
    models = written(tmp_path, f'{MODEL}api_key_env = "NOT_SET_ANYWHERE"\n').find_models()
    with pytest.raises(ConfigError, match="set the environment variable NOT_SET_ANYWHERE"):
        models.get()


def test_settings_never_change(tmp_path: Path) -> None:
    settings = load(tmp_path)
    with pytest.raises(ValueError, match="frozen"):
        settings.data_dir = Path("elsewhere")


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    settings = written(tmp_path, "database_url = 'postgresql://ann:sesame@host/db'")
    assert settings.database_shown == "postgresql://ann:…@host/db"


WRONG = [
    ("data_dr = 'x'", "1: data_dr is not a setting. Did you mean 'data_dir'?"),
    (
        "[rate_limits]\nwatermelon = 1",
        "2: rate_limits.watermelon is not a setting. There are bulk, chat, general.",
    ),
    ("[server]\nprt = 1", "2: server.prt is not a setting. Did you mean 'port'?"),
    ("[server]\nport = '1'", "2: server.port must be a valid integer, found '1'."),
    ("[server]\nport = true", "2: server.port must be a valid integer, found True."),
    ("[server]\nport = 70000", "2: server.port must be less than or equal to 65535, found 70000."),
    ("synchronous = 'OFF'", "1: synchronous must be 'FULL' or 'NORMAL', found 'OFF'."),
    ("[tools]\npython = 'yes'", "2: tools.python must be a valid boolean, found 'yes'."),
    (
        "[sandbox]\nhardened = 'yes'",
        "2: sandbox.hardened must be true, false or \"auto\", found 'yes'.",
    ),
    (
        "[models.a]\nprovider = 'openai'\nmax_concurrent = 0",
        "3: models.a.max_concurrent must be 1 or more, because with 0 no request would ever be sent (remove the line for no limit), found 0.",  # noqa: E501
    ),
    ("\n[limits]\nstrems = 1", "3: limits.strems is not a setting. Did you mean 'streams'?"),
    (
        "[limits]\nworkflow_max_concurrent = 101",
        "1: limits must not be so high: workflow_max_concurrent is 101, at most 100.",
    ),
    (
        "[limits]\nworkflow_seconds = 86401",
        "1: limits must not be so high: workflow_seconds is 86401, at most 86400.",
    ),
    ("[limits]\njson_depth = 300", "2: limits.json_depth is fixed now; remove it."),
    (
        "[models.a]\nprovider = 'openai'\ncached_input_price = 2e6",
        "3: models.a.cached_input_price must be less than or equal to 100000, found 2000000.0.",
    ),
    ("[limits]\nstreams = -1", "1: limits must be more than 0 and finite: streams is -1."),
    ("[limits]\nping_seconds = inf", "2: limits.ping_seconds must be a finite number, found inf."),
    ("[models.a]\nmodel = 'x'", "1: models.a needs a `provider`, or a list of `models`."),
    (
        "[models.a]\nmodels = ['x']",
        "1: models.a must list two models or more in `models`, found 1.",
    ),
    (
        "[models.a]\nmodels = ['x', 'y']\non = ['Refused']",
        "3: models.a.on.0 must be 'ContextTooLarge' or 'ModelRefused', found 'Refused'.",
    ),
    (
        "[models.a]\nmodels = ['x', 'y']\ntemperature = 0.5\nprovider = 'openai'",
        "1: models.a has `models`, so it may have only `on` beside it: each of its models has settings of its own; remove provider, temperature.",  # noqa: E501,
    ),
    (
        "[models.a]\nprovider = 'openai'\non = ['ModelRefused']",
        "1: models.a has `on`, which is for an entry that lists `models`; remove it.",
    ),
    (
        "[models.a]\nprovider = 'openai'\napi_key = 'x'",
        "3: models.a.api_key is not a setting. Did you mean 'api_key_env'?",
    ),
    (
        "[notifications.ops]\nkind = 'slack'\nwebhook = 'hook'\nwebhok = 'x'",
        "4: notifications.ops.webhok is not a setting. Did you mean 'webhook'?",
    ),
    (
        "[[rules]]\ntool = 'a'\naction = 'ask'\n[[rules]]\ntool = 'b'\naction = 'maybe'",
        "6: rules.1.action must be 'allow', 'ask' or 'deny', found 'maybe'.",
    ),
    ("port = 1\nport = 2", "2: this is not TOML: cannot overwrite a value."),
    ("[server\n", "1: this is not TOML: expected ']' at the end of a table declaration."),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, text)
    assert str(caught.value) == f"penstock.toml:{expected}"


def test_all_mistakes_are_listed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVR__PORT", "1")
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, "[server]\nport = 'x'\n", synchronous=5)
    assert str(caught.value) == (
        "The settings cannot be used, 3 problems:\n"
        "  synchronous must be 'FULL' or 'NORMAL', found 5.\n"
        "  penstock.toml:2: server.port must be a valid integer, found 'x'.\n"
        "  PENSTOCK_SERVR__PORT: servr is not a setting. Did you mean 'server'?"
    )


def test_a_wrong_schema_of_a_rule_is_named(tmp_path: Path) -> None:
    text = "[[rules]]\ntool = 'a'\naction = 'ask'\nwhen = { type = 5 }\n"
    with pytest.raises(ConfigError, match=r"^penstock.toml:4: rules.0.when /type: "):
        written(tmp_path, text)


def test_a_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_bytes(b"data_dir = 'x'\n# \xff\n")
    with pytest.raises(ConfigError, match=r"^penstock.toml:2: this is not UTF-8; save it as UTF-8"):
        load(tmp_path)


def test_without_a_nearest_name_all_names_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        written(tmp_path, "watermelon = 1")
    assert all(name in str(refused.value) for name in Settings.model_fields)


def test_a_fixed_limit_is_not_a_setting() -> None:
    assert FIXED_LIMITS.isdisjoint(asdict(Limits()))


def test_a_limit_without_a_default_can_stay_unset(tmp_path: Path) -> None:
    none = {name: value for name, value in asdict(Limits()).items() if value == 0}
    text = "".join(f"{name} = 0\n" for name in none)
    settings = written(tmp_path, f"[limits]\nstreams = 7\n{text}")
    assert settings.limits == Limits(streams=7)


@pytest.mark.parametrize(("text", "allowed"), [("0", False), ("false", False), ("1", True)])
def test_models_of_providers_can_be_refused_where_tests_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, allowed: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_ALLOW_MODELS", text)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    models = load(tmp_path).find_models()
    assert models.get("offline").card.model_id == "offline"
    if allowed:
        assert models.get("openai:gpt-5").card.model_id == "openai:gpt-5"
    else:
        with pytest.raises(ConfigError, match="'openai:gpt-5' is not asked: models of providers"):
            models.get("openai:gpt-5")
