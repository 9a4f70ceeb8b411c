"""What the operator chose: penstock.toml and PENSTOCK_ variables, read once, frozen."""

import dataclasses
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)

from penstock.app.sections import (
    STRICT,
    EgressSection,
    FlowSection,
    LocalSection,
    ModelEntry,
    ModelSection,
    NotificationEntry,
    RateSection,
    RuleEntry,
    SandboxSection,
    ServerSection,
    ToolSection,
)
from penstock.app.sources import PathInSettings, Sources, settings_error
from penstock.core.diagnostics import did_you_mean
from penstock.core.limits import Limits
from penstock.models.config import ModelConfig
from penstock.models.providers import PROVIDERS, key_variable
from penstock.models.resolve import Models

FILE = "penstock.toml"
PREFIX = "PENSTOCK_"
DATABASE_FILE = "penstock.db"


MOST = {"workflow_max_concurrent": 100, "workflow_seconds": 86_400}
"""The limits that have one themselves."""


def _in_range(limits: Limits) -> Limits:
    """Return the limits if each is finite and more than nothing, or is nothing unless it is set."""
    values, usual = dataclasses.asdict(limits), dataclasses.asdict(Limits())
    wrong = [
        name for name, value in values.items() if not 0 < value < math.inf and value != usual[name]
    ]
    if wrong:
        said = ", ".join(f"{name} is {values[name]}" for name in wrong)
        raise ValueError(f"must be more than 0 and finite: {said}")
    if high := [name for name, most in MOST.items() if values[name] > most]:
        said = ", ".join(f"{name} is {values[name]:g}, and {MOST[name]} at most" for name in high)
        raise ValueError(f"must not be so high: {said}")
    return limits


class Settings(BaseModel):
    """What the operator chose, frozen. `load` makes one."""

    model_config = STRICT

    data_dir: Path = Path(".penstock")
    """Where the database and the blobs lie; relative to the project."""
    database_url: str = ""
    """`sqlite:///FILE` or `postgresql://…`; nothing is `penstock.db` in `data_dir`."""
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """Of SQLite: FULL survives a power cut; NORMAL is faster, and may lose the last moments."""
    blobs: str = ""
    """Where large values go: a folder, or `s3://BUCKET/PREFIX`; nothing is in `data_dir`."""
    secret_key: SecretStr = SecretStr("")
    """What secrets are sealed with: 32 bytes as base64url; several with commas, the first writes.
    Belongs in the environment; nothing is `secret.key` in `data_dir`, made on first use."""
    models: ModelSection = ModelSection()
    """Which models there are."""
    rules: tuple[RuleEntry, ...] = ()
    """What is allowed, asked for or denied."""
    server: ServerSection = ServerSection()
    """Where the server listens."""
    rate_limits: RateSection = RateSection()
    """How many requests a minute."""
    tools: ToolSection = ToolSection()
    """Which tools are loaded."""
    global_tools: tuple[str, ...] = ()
    """Ids of tools that every model and every script may call, beside the global ones there are."""
    local: LocalSection = LocalSection()
    """Who works here without a key."""
    egress: EgressSection = EgressSection()
    """Which hosts may be reached."""
    notifications: dict[str, NotificationEntry] = Field(default_factory=dict)
    """Channels that notifications go to, by name."""
    sandbox: SandboxSection = SandboxSection()
    """Where scripts run."""
    flows: FlowSection = FlowSection()
    """What flows and agents may do in the project's folder."""
    runtime_config: dict[str, str] = Field(default_factory=dict)
    """Texts that scripts may read with `flo.getRuntimeConfig`."""
    cache_dir: str = ""
    """Where compiled code is kept; nothing is `penstock` in the user's cache folder."""
    limits: Annotated[Limits, AfterValidator(_in_range)] = Limits()
    """Sizes, depths, counts and times."""

    _root: Path = PrivateAttr(default=Path())
    _user_cache: Path = PrivateAttr(default=Path())
    _keys: dict[str, SecretStr] = PrivateAttr(default_factory=dict)
    """Keys of models, by the variable that holds each."""

    @property
    def root(self) -> Path:
        """Return the project's folder, which relative paths begin at."""
        return self._root

    @property
    def data_path(self) -> Path:
        """Return where the data lies, absolute."""
        return (self._root / self.data_dir).resolve()

    @property
    def cache_path(self) -> Path:
        """Return where compiled code is kept, absolute."""
        return (self._root / self.cache_dir).resolve() if self.cache_dir else self._user_cache

    @property
    def database(self) -> str:
        """Return the database's address, absolute."""
        scheme, _, place = self.database_url.partition("sqlite:///")
        if not self.database_url:
            return f"sqlite:///{self.data_path / DATABASE_FILE}"
        if scheme or not place or place.startswith(":memory:"):
            return self.database_url
        return f"sqlite:///{(self._root / place).resolve()}"

    @property
    def database_shown(self) -> str:
        """Return the database's address for people, without its password."""
        return re.sub(r"://([^:/@]+):[^@]*@", r"://\1:…@", self.database)

    @property
    def blob_place(self) -> str:
        """Return where blobs go: an absolute folder, or a URL."""
        if ":" in self.blobs:
            return self.blobs
        return str((self._root / self.blobs).resolve() if self.blobs else self.data_path / "blobs")

    @property
    def all_limits(self) -> Limits:
        """Return the limits, with what `[server]` says about two of them."""
        own = {
            name: value
            for name in ("request_wait_seconds", "blob_url_seconds")
            if (value := getattr(self.server, name)) is not None
        }
        return dataclasses.replace(self.limits, **own)

    def find_models(self) -> Models:
        """Return the models; each has its key, from `api_key_env` or its provider's variable."""
        keys = {variable: key.get_secret_value() for variable, key in self._keys.items()}
        return Models(
            [_config(name, entry, keys) for name, entry in self.models.entries.items()],
            default=self.models.default,
            limits=self.all_limits,
            keys=keys,
        )


def load(root: Path, **overrides: Any) -> Settings:
    """Read the settings of the project in this folder; what is given here wins over all.

    Raises ConfigError, which names every problem and where it comes from.
    """
    sources = Sources(root / FILE, os.environ, overrides, prefix=PREFIX)
    try:
        settings = Settings.model_validate_json(sources.merged(_is_text))
    except ValidationError as error:
        described = (_described(each, sources) for each in error.errors())
        raise settings_error(list(dict.fromkeys(described))) from None
    variables = {each.api_key_env for each in settings.models.entries.values() if each.api_key_env}
    for provider in PROVIDERS.values():
        variables.update(provider.key_env)
    keys = {variable: os.environ.get(variable, "") for variable in variables}
    settings._root = root.resolve()  # noqa: SLF001  private to this file
    settings._user_cache = _cache_of_user()  # noqa: SLF001
    settings._keys = {each: SecretStr(key) for each, key in keys.items() if key}  # noqa: SLF001
    return settings


def _config(name: str, entry: ModelEntry, keys: Mapping[str, str]) -> ModelConfig:
    variable = entry.api_key_env or key_variable(entry.provider, keys, entry.base_url)
    return ModelConfig(
        name=name,
        api_key=keys.get(variable or ""),
        key_env=variable,
        **entry.model_dump(exclude={"api_key_env"}),
    )


def _cache_of_user() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / ".cache") / "penstock"


def _described(error: Mapping[str, Any], sources: Sources) -> str:
    """Return one problem as a line: where it is, what is wrong, what would be right."""
    full = tuple(str(part) for part in error["loc"])
    path = tuple(part for part in full if not part.isdigit())
    if choices := _choices(path[:-1]):
        full, path = full[:-1], path[:-1]
    where, name = sources.of(full), ".".join(full)
    if error["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        known = sorted(_inside(_kinds(path[:-1])))
        hint = did_you_mean(path[-1], known) or f" There are {', '.join(known)}."
        return f"{where}{name} is not a setting.{hint}"
    if error["type"] == "missing":
        return f"{where}{name} is missing."
    said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if choices:
        said = f"must be {choices}"
    if isinstance(error["input"], dict | list):
        return f"{where}{name} {said}."
    return f"{where}{name} {said}, found {error['input']!r}."


def _choices(path: PathInSettings) -> str:
    """Return what a setting of several types may be, as its file says it; else nothing."""
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
    """Return the type of the setting at this path; all its types, if there may be several."""
    kinds: tuple[Any, ...] = (Settings,)
    for key in path:
        kind = _inside(kinds).get(key) or _entry(kinds)
        kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    return kinds


def _entry(kinds: tuple[Any, ...]) -> Any:
    """Return the type of what stands under a name of one's own, such as `[models.NAME]`."""
    entries = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
    return ModelEntry if ModelSection in kinds else next(iter(entries), None)


def _inside(kinds: tuple[Any, ...]) -> dict[str, Any]:
    """Return the settings of a section by name, each with its type."""
    for kind in kinds:
        if kind is Limits:
            return {each.name: each.type for each in dataclasses.fields(Limits)}
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return {name: field.annotation for name, field in kind.model_fields.items()}
        if get_origin(kind) is tuple and issubclass(get_args(kind)[0], BaseModel):
            return _inside(get_args(kind)[:1])
    return {}
