"""The settings of the operator: penstock.toml and PENSTOCK_ variables, read once, frozen."""

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)

from penstock.app.sections.background import (
    RetentionSection,
    SchedulesSection,
    WebhookEntry,
    are_different,
)
from penstock.app.sections.sources import PathInSettings, Sources, settings_error
from penstock.app.settings_sections import (
    STRICT,
    EgressSection,
    FlowSection,
    LocalSection,
    ModelEntry,
    ModelSection,
    ModelSettingsSection,
    NotificationEntry,
    RateSection,
    RuleEntry,
    SandboxSection,
    ServerSection,
    ToolSection,
)
from penstock.core.diagnostics import did_you_mean
from penstock.core.limits import Limits
from penstock.models.limiter import RequestLimits
from penstock.models.prices import Prices, open_prices
from penstock.models.providers import PROVIDERS, ModelConfig, key_variable
from penstock.models.resolve import ModelDefaults, ModelRegistry, RegistryWithoutProviders

FILE = "penstock.toml"
PREFIX = "PENSTOCK_"
DATABASE_FILE = "penstock.db"
PRICES_FILE = "prices.json"


FIXED_LIMITS = frozenset(
    (
        *("argument_chars", "batch_units", "blocking_seconds", "call_depth", "details_bytes"),
        *("error_chars", "event_bytes", "fetch_header_bytes", "fetch_redirects"),
        *("finish_reminders", "finish_retries", "flow_depth", "fold_cache", "head_bytes"),
        *("images", "json_depth", "log_line_bytes", "log_lines", "longest_probation_seconds"),
        *("message_bytes", "models", "preview_chars", "retry_after_seconds"),
        *("script_stack_kb", "secret_bytes", "state_key_bytes", "timers", "title_chars"),
        *("window_tokens", "body_bytes_per_second", "cut_again_seconds", "events"),
        *("followed_seconds", "live_text_seconds", "loose_seconds", "model_connect_seconds"),
        *("nested_in_flight", "queued_units", "renew_seconds", "stream_frames"),
        *("web_link_seconds",),
    )
)
"""Former limits that are constants now; the error for one says so."""
MAXIMA = {"run_depth": 32, "workflow_max_concurrent": 100, "workflow_seconds": 86_400}
"""The limits that have a maximum."""


def _in_range(limits: Limits) -> Limits:
    """Return the limits. Raises ValueError unless each is its default, or positive and finite."""
    values, usual = dataclasses.asdict(limits), dataclasses.asdict(Limits())
    wrong = [
        name for name, value in values.items() if not 0 < value < math.inf and value != usual[name]
    ]
    if wrong:
        listed = ", ".join(f"{name} is {values[name]}" for name in wrong)
        raise ValueError(f"must be more than 0 and finite: {listed}")
    if high := [name for name, most in MAXIMA.items() if values[name] > most]:
        listed = ", ".join(f"{name} is {values[name]:g}, at most {MAXIMA[name]}" for name in high)
        raise ValueError(f"must not be so high: {listed}")
    return limits


def _as_switch(value: Any) -> Any:
    """Take 0 and 1, as people write them in the environment."""
    return bool(value) if value in (0, 1) else value


class Settings(BaseModel):
    """The settings of one project, frozen. `load` reads them."""

    model_config = STRICT

    data_dir: Path = Path(".penstock")
    """The folder of the database and the blobs; relative to the project."""
    database_url: str = ""
    """`sqlite:///FILE` or `postgresql://…`; empty means `penstock.db` in `data_dir`."""
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """For SQLite: FULL survives a power cut; NORMAL is faster and can lose the last commits."""
    blobs: str = ""
    """The place of large values: a folder, or `s3://BUCKET/PREFIX`, which needs the extra `s3`;
    empty means `data_dir`."""
    secret_key: SecretStr = SecretStr("")
    """The key that encrypts secrets: 32 bytes as base64url. Of several, separated by commas, the
    first one encrypts. Set it in the environment; empty means the file `secret.key` in `data_dir`,
    which is created on first use."""
    models: ModelSection = ModelSection()
    """The models, and the default one."""
    allow_models: Annotated[bool, BeforeValidator(_as_switch)] = True
    """Whether models of providers may be asked. Set PENSTOCK_ALLOW_MODELS=0 where tests run."""
    model_settings: ModelSettingsSection = ModelSettingsSection()
    """Settings of requests to every model."""
    rules: tuple[RuleEntry, ...] = ()
    """Rules that allow calls, deny them, or require an approval."""
    server: ServerSection = ServerSection()
    """The address and the behavior of the HTTP server."""
    rate_limits: RateSection = RateSection()
    """Limits on requests per minute."""
    tools: ToolSection = ToolSection()
    """The tools that are loaded and offered."""
    global_tools: tuple[str, ...] = ()
    """Ids of further tools that every model and every script can call."""
    local: LocalSection = LocalSection()
    """The permissions of requests without an API key."""
    retention: RetentionSection = RetentionSection()
    """How long conversations, calls and runs are kept."""
    schedules: SchedulesSection = SchedulesSection()
    """The permissions of schedules in the project's files."""
    egress: EgressSection = EgressSection()
    """The hosts that tools can reach."""
    notifications: dict[str, NotificationEntry] = Field(default_factory=dict)
    """The channels of notifications, by name."""
    webhooks: Annotated[tuple[WebhookEntry, ...], AfterValidator(are_different)] = ()
    """Servers that receive events of tasks."""
    sandbox: SandboxSection = SandboxSection()
    """The engine of scripts, and its confinement."""
    flows: FlowSection = FlowSection()
    """Rights of flows and agents in the project's folder."""
    runtime_config: dict[str, str] = Field(default_factory=dict)
    """Texts that scripts can read with `flo.getRuntimeConfig`."""
    cache_dir: str = ""
    """The folder of compiled code; empty means `penstock` in the user's cache folder."""
    limits: Annotated[Limits, AfterValidator(_in_range)] = Limits()
    """Sizes, depths, counts and times."""

    _root: Path = PrivateAttr(default=Path())
    _user_cache: Path = PrivateAttr(default=Path())
    _user_data: Path = PrivateAttr(default=Path())
    _keys: dict[str, SecretStr] = PrivateAttr(default_factory=dict)
    """API keys of models, by environment variable."""

    @property
    def root(self) -> Path:
        """Return the project's folder, the base of relative paths."""
        return self._root

    @cached_property
    def data_path(self) -> Path:
        """The data folder, absolute. Computed once: opening a project asks nine times."""
        return (self._root / self.data_dir).resolve()

    @property
    def cache_path(self) -> Path:
        """Return the folder of compiled code, absolute."""
        return (self._root / self.cache_dir).resolve() if self.cache_dir else self._user_cache

    @property
    def price_files(self) -> tuple[Path, Path]:
        """Return the tables of prices that win over the one that ships: the project's first."""
        return self.data_path / PRICES_FILE, self._user_data / PRICES_FILE

    @property
    def database(self) -> str:
        """Return the URL of the database, with an absolute path."""
        scheme, _, place = self.database_url.partition("sqlite:///")
        if not self.database_url:
            return f"sqlite:///{self.data_path / DATABASE_FILE}"
        if scheme or not place or place.startswith(":memory:"):
            return self.database_url
        return f"sqlite:///{(self._root / place).resolve()}"

    @property
    def database_shown(self) -> str:
        """Return the URL of the database without its password, for messages."""
        return re.sub(r"://([^:/@]+):[^@]*@", r"://\1:…@", self.database)

    @property
    def blob_place(self) -> str:
        """Return the place of blobs: an absolute folder, or a URL."""
        if ":" in self.blobs:
            return self.blobs
        return str((self._root / self.blobs).resolve() if self.blobs else self.data_path / "blobs")

    def find_models(self) -> ModelRegistry:
        """Return the models with their API keys, from `api_key_env` or the provider's variable."""
        keys = {variable: key.get_secret_value() for variable, key in self._keys.items()}
        make = ModelRegistry if self.allow_models else RegistryWithoutProviders
        return make(
            [_config(name, entry, keys) for name, entry in self.models.entries.items()],
            default=self.models.default,
            limits=self.limits,
            keys=keys,
            defaults=ModelDefaults(
                settings=self.model_settings.model_settings,
                user_ids=self.models.user_ids,
                prices=cache(partial(open_prices, self.price_files)),
            ),
        )


def load(root: Path, **overrides: Any) -> Settings:
    """Read the settings of the project in a folder. `overrides` win over file and environment.

    Raises ConfigError, which lists every error with its source.
    """
    sources = Sources(root / FILE, os.environ, overrides, prefix=PREFIX)
    try:
        settings = Settings.model_validate_json(sources.merged(_is_text))
    except ValidationError as error:
        described = (_described(detail, sources) for detail in error.errors())
        raise settings_error(list(dict.fromkeys(described))) from None
    variables = {each.api_key_env for each in settings.models.entries.values() if each.api_key_env}
    for provider in PROVIDERS.values():
        variables.update(provider.key_env)
    keys = {variable: os.environ.get(variable, "") for variable in variables}
    settings._root = root.resolve()  # noqa: SLF001  private to this file
    settings._user_cache = _folder_of_user("XDG_CACHE_HOME", ".cache")  # noqa: SLF001
    settings._user_data = _folder_of_user("XDG_DATA_HOME", ".local/share")  # noqa: SLF001
    settings._keys = {each: SecretStr(key) for each, key in keys.items() if key}  # noqa: SLF001
    return settings


_AS_WRITTEN = {
    *("provider", "model", "api", "base_url", "organization", "context_tokens", "extra"),
    *("models", "on", "auth", "api_version"),
}
_LIMITS = {"max_concurrent", "requests_per_minute", "tokens_per_minute"}
_CAPABILITIES = {
    *("tools", "images", "pdf", "audio", "tool_images", "json_schema", "forced_tool_choice"),
    *("binds_thinking", "thinking_modes", "efforts", "max_output", "sampling"),
}


def _config(name: str, entry: ModelEntry, keys: Mapping[str, str]) -> ModelConfig:
    variable = entry.api_key_env or key_variable(entry.provider, keys, entry.base_url)
    return ModelConfig(
        name=name,
        api_key=keys.get(variable or ""),
        key_env=variable,
        requires_key=entry.api_key_env is not None,
        capabilities=entry.model_dump(include=_CAPABILITIES, exclude_none=True),
        settings=entry.model_settings,
        limits=RequestLimits(**entry.model_dump(include=_LIMITS)),
        prices=Prices(
            input=entry.input_price,
            output=entry.output_price,
            cached=entry.cached_input_price,
            cache_write=entry.cache_write_price,
            cache_write_long=entry.cache_write_long_price,
        ),
        **entry.model_dump(include=_AS_WRITTEN),
    )


def _folder_of_user(variable: str, usual: str) -> Path:
    named = os.environ.get(variable, "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / usual) / "penstock"


def _described(error: Mapping[str, Any], sources: Sources) -> str:
    """Return one error as a line: its source, what was found, what would be valid."""
    full = tuple(str(part) for part in error["loc"])
    path = tuple(part for part in full if not part.isdigit())
    if choices := _choices(path[:-1]):
        full, path = full[:-1], path[:-1]
    where, name = sources.source_of(full), ".".join(full)
    if error["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        if path[:-1] == ("limits",) and path[-1] in FIXED_LIMITS:
            return f"{where}{name} is fixed now; remove it."
        known = sorted(_inside(_kinds(path[:-1])))
        hint = did_you_mean(path[-1], known) or f" There are {', '.join(known)}."
        return f"{where}{name} is not a setting.{hint}"
    if error["type"] == "missing":
        return f"{where}{name} is missing."
    issue = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if choices:
        issue = f"must be {choices}"
    if isinstance(error["input"], dict | list):
        return f"{where}{name} {issue}."
    return f"{where}{name} {issue}, found {error['input']!r}."


def _choices(path: PathInSettings) -> str:
    """Return the valid values of a setting with several types, as TOML; else an empty text."""
    kinds = _kinds(path)
    if get_origin(kinds[0]) is not Union:
        return ""
    words: list[str] = []
    for kind in get_args(kinds[0]):
        if get_origin(kind) is Literal:
            words += (json.dumps(each) for each in get_args(kind))
        else:
            words += ["true", "false"] if kind is bool else [kind.__name__]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _is_text(path: PathInSettings) -> bool:
    kinds = _kinds(path)
    return not {str, Path, SecretStr}.isdisjoint(kinds) or any(
        get_origin(kind) is Literal for kind in kinds
    )


def _kinds(path: PathInSettings) -> tuple[Any, ...]:
    """Return the types of the setting at a path."""
    kinds: tuple[Any, ...] = (Settings,)
    for key in path:
        kind = _inside(kinds).get(key) or _entry(kinds)
        kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    return kinds


def _entry(kinds: tuple[Any, ...]) -> Any:
    """Return the type of the values under user-chosen names, such as `[models.NAME]`."""
    entries = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
    return ModelEntry if ModelSection in kinds else next(iter(entries), None)


def _inside(kinds: tuple[Any, ...]) -> dict[str, Any]:
    """Return the settings of a section by name, with their types."""
    for kind in kinds:
        if kind is Limits:
            return {each.name: each.type for each in dataclasses.fields(Limits)}
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return {name: field.annotation for name, field in kind.model_fields.items()}
        if get_origin(kind) is tuple and issubclass(get_args(kind)[0], BaseModel):
            return _inside(get_args(kind)[:1])
    return {}
