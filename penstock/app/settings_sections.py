"""The sections of penstock.toml: models, rules, server, rate limits, tools, flows."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from penstock.core.json_values.schema import Schema
from penstock.core.profile import APPROVE, CHAT, LOCAL_PROFILE, MANAGE, READ, Profile
from penstock.models.prices import MAX_PRICE
from penstock.models.settings import ModelSettings
from penstock.resources.channels import Channel, ChannelKind
from penstock.resources.hosts import read_patterns, read_private
from penstock.resources.signed_links import LINK_SECONDS
from penstock.tools.policy import Action, Rule
from penstock.tools.shell import ShellSettings

STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)
"""The configuration of every section: unknown keys and values of another type are errors."""
Engine = Literal["wasm", "deno"]


def _is_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema. Raises ValueError for an invalid one."""
    if schema is not None:
        Schema(schema)
    return schema


class ModelSettingsSection(BaseModel):
    """`[model_settings]`: settings of requests to every model."""

    model_config = ConfigDict(**STRICT, protected_namespaces=())

    temperature: float | None = None
    """The sampling temperature, from 0 to 2; unset means the model's own."""
    top_p: float | None = None
    """The share of the probability mass that sampling considers, from 0 to 1."""
    max_tokens: int | None = None
    """The longest reply in tokens; unset means 2,048."""
    stop: tuple[str, ...] | None = None
    """Texts that end a reply; at most 16."""
    seed: int | None = None
    """A seed for sampling."""
    thinking: str | None = None
    """The level of thinking: `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`."""
    parallel_calls: bool | None = None
    """Whether one reply may ask for several calls."""
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the id of the tool to call."""
    timeout: float | None = None
    """How many seconds one reply may take, without the wait for the limits of the model."""
    cache_ttl: str | None = None
    """How long the provider keeps the beginning of a request: `5m` or `1h`."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Members to add to the body of every request."""

    @model_validator(mode="after")
    def _are_possible(self) -> "ModelSettingsSection":
        self.model_settings  # noqa: B018  raises ValueError
        return self

    @property
    def model_settings(self) -> ModelSettings:
        """The settings that are set."""
        values = {name: getattr(self, name) for name in ModelSettingsSection.model_fields}
        given = {name: value for name, value in values.items() if value not in (None, {})}
        return ModelSettings(**given)


def _is_limit(value: int | None) -> int | None:
    """Return the limit. Raises ValueError for one that would admit nothing."""
    if value is not None and value < 1:
        raise ValueError(
            f"must be 1 or more, because with {value} no request would ever be sent (remove the "
            "line for no limit)"
        )
    return value


RequestLimit = Annotated[int | None, AfterValidator(_is_limit)]
Price = Annotated[float | None, Field(ge=0, le=MAX_PRICE)]


class ModelEntry(ModelSettingsSection):
    """`[models.NAME]`: one model under a name of your own."""

    models: tuple[str, ...] = ()
    """Names of models, the preferred one first: the next one is asked if one fails. Such an entry
    has only `models` and `on`."""
    on: tuple[Literal["ContextTooLarge", "ModelRefused"], ...] = ()
    """Errors after which the next model is asked, too; see [Models](models.md#fallback)."""
    provider: str = ""
    """`offline`; on the OpenAI chat wire `openai`, `deepseek`, `openai-compatible`, `llama.cpp`,
    `ollama`, `vllm`; on wires of their own `anthropic` and `openai-responses`; through Pydantic AI
    `bedrock`, `cohere`, `fireworks`, `google`, `google-cloud`, `groq`, `huggingface`, `mistral`,
    `openrouter`, `together`, and any other that it knows."""
    api: Literal["openai", "openai-responses", "anthropic"] | None = None
    """The API of the server at `base_url`, if it is not the provider's usual one."""
    model: str = ""
    """The provider's name of the model."""
    base_url: str | None = None
    """The address of a server with the API of the provider, such as
    `http://127.0.0.1:11434/v1`."""
    api_key_env: str | None = None
    """The environment variable that holds the API key. The default is the provider's, such as
    `OPENAI_API_KEY`; with a `base_url` there is no default. The key is never in a file."""
    organization: str | None = Field(default=None, pattern=r"^[!-~]{1,100}$")
    """The organization at OpenAI that the requests are for, if the key has several."""
    auth: Literal["bearer"] | None = None
    """`bearer` sends the key to a server with Anthropic's API as a bearer token."""
    api_version: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")
    """The version of Anthropic's API, such as `2023-06-01`. Newer ones accept no temperature."""
    context_tokens: int | None = Field(default=None, gt=0)
    """The size of the model's context window, in tokens."""
    input_price: Price = None
    """USD per million input tokens."""
    output_price: Price = None
    """USD per million output tokens."""
    cached_input_price: Price = None
    """USD per million input tokens that the provider reads from its cache."""
    cache_write_price: Price = None
    """USD per million input tokens that the provider writes to its cache."""
    cache_write_long_price: Price = None
    """The same for an hour or longer."""
    max_concurrent: RequestLimit = None
    """Requests to the model at once; further ones wait, conversations in turn."""
    requests_per_minute: RequestLimit = None
    """Requests to the model in a minute."""
    tokens_per_minute: RequestLimit = None
    """Tokens that the model reads and writes in a minute."""
    tools: bool | None = None
    """Whether the model can call tools."""
    images: bool | None = None
    """Whether messages may contain images."""
    pdf: bool | None = None
    """Whether messages may contain PDF files."""
    audio: bool | None = None
    """Whether messages may contain audio."""
    tool_images: bool | None = None
    """Whether results of tools may contain images."""
    json_schema: bool | None = None
    """Whether the provider can hold a reply to a JSON Schema."""
    forced_tool_choice: bool | None = None
    """Whether a request can force a call."""
    binds_thinking: bool | None = None
    """Whether signed thinking is valid only after the exact request that it followed."""
    thinking_modes: tuple[str, ...] | None = None
    """`adaptive`, `enabled`, `disabled` and `between_tools`, as Anthropic names them."""
    efforts: tuple[str, ...] | None = None
    """The levels of effort that the model accepts, lowest first."""
    max_output: int | None = Field(default=None, gt=0)
    """The most output tokens of one reply."""
    sampling: bool | None = None
    """Whether the model accepts a temperature and `top_p`."""

    @model_validator(mode="after")
    def _is_model_or_fallback(self) -> "ModelEntry":
        if not self.models:
            if not self.provider:
                raise ValueError("needs a `provider`, or a list of `models`")
            if self.on:
                raise ValueError("has `on`, which is for an entry that lists `models`; remove it")
            return self
        if len(self.models) < len(("first", "second")):
            raise ValueError(f"must list two models or more in `models`, found {len(self.models)}")
        own = {"models", "on"} if self.provider else {"models", "on", "provider"}
        if more := sorted(self.model_fields_set - own):
            raise ValueError(
                "has `models`, so it may have only `on` beside it: each of its models has settings "
                f"of its own; remove {', '.join(more)}"
            )
        return self


class ModelSection(BaseModel):
    """`[models]`: the models, and the default one."""

    model_config = ConfigDict(**{**STRICT, "extra": "allow"})
    __pydantic_extra__: dict[str, ModelEntry] = Field(init=False)

    user_ids: bool = True
    """Whether requests tell providers, by a keyed hash, which of them are for the same profile."""
    default: str = "offline"
    """A name from `[models.NAME]`, or `provider:model`."""
    roles: dict[str, str] = Field(default_factory=dict)
    """The model of each role, for agents whose model is `@role`."""

    @property
    def entries(self) -> Mapping[str, ModelEntry]:
        """Return the models by name."""
        return self.__pydantic_extra__ or {}


class RuleEntry(BaseModel):
    """`[[rules]]`: allow calls of some tools, deny them, or require an approval."""

    model_config = STRICT

    tool: str = Field(min_length=1)
    """A pattern for tool ids, such as `send_*`."""
    action: Literal["allow", "ask", "deny"]
    """Of all rules that match, `deny` wins over `ask`, and `ask` over `allow`."""
    agent: str = "*"
    """A pattern for agent names. `ask` and `deny` hold for agents that are tools of it, too."""
    labels: tuple[str, ...] = ()
    """Only tools with one of these labels."""
    when: Annotated[dict[str, Any] | None, AfterValidator(_is_schema)] = None
    """Only calls whose input matches this JSON Schema."""

    def rule(self) -> Rule:
        """Return the rule for the invoker."""
        return Rule(
            tool=self.tool,
            action=Action(self.action),
            agent=self.agent,
            labels=frozenset(self.labels),
            when=None if self.when is None else Schema(self.when),
        )


class ServerSection(BaseModel):
    """`[server]`: the address of `penstock serve`, and the clients that it accepts."""

    model_config = STRICT

    host: str = "127.0.0.1"
    """The address to bind. Any but a loopback address needs a key (`penstock keys create`)."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port to bind; 0 takes a free one."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose web pages can use the API."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""
    request_wait_seconds: float = Field(default=600, gt=0)
    """How long a chat without a stream waits for its answer."""
    blob_url_seconds: int = Field(default=LINK_SECONDS, gt=0)
    """How long a signed link works."""
    public_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """The URL of this server in links of `/web`; empty means `http://HOST:PORT`."""

    @property
    def web_url(self) -> str:
        """The URL of the web page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"


class RateSection(BaseModel):
    """`[rate_limits]`: requests per minute of one key or address; 0 means no limit."""

    model_config = STRICT

    chat: int = Field(default=20, ge=0)
    """Messages and regenerated answers, per minute."""
    bulk: int = Field(default=10, ge=0)
    """Requests that delete many conversations, per minute."""
    general: int = Field(default=100, ge=0)
    """All other requests, per minute."""


class ToolSection(BaseModel):
    """`[tools]`: the tools that are loaded, and the built-in tools that chats are offered."""

    model_config = STRICT

    python: bool = True
    """Whether `tools/*.py` are loaded. They run in this process, with all its rights."""
    builtin: tuple[str, ...] = ()
    """Families of built-in tools that chats are offered in addition to the core: `agents`,
    `archive`, `artifacts`, `download`, `files`, `media`, `notify`, `sheets`, `shell`, `skills` and
    `workspace`."""
    strict: bool = False
    """Whether an error in the project's files prevents the start."""


class LocalSection(BaseModel):
    """`[local]`: the profile of requests without an API key, and of the CLI."""

    model_config = STRICT

    permissions: tuple[str, ...] | None = None
    """Permissions of the profile `local` in addition to read, chat, approve and manage: those that
    tools and skills require, or `admin`, which includes all. Unset means all permissions."""

    @property
    def profile(self) -> Profile:
        """Return the profile of requests without an API key."""
        if self.permissions is None:
            return LOCAL_PROFILE
        return Profile(permissions=frozenset({READ, CHAT, APPROVE, MANAGE, *self.permissions}))


def _are_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns. Raises ValueError for an invalid one."""
    read_patterns(patterns)
    return patterns


def _are_hosts(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries. Raises ValueError for one that names no host."""
    read_private(entries)
    return entries


class EgressSection(BaseModel):
    """`[egress]`: the hosts that scripts and built-in tools can reach."""

    model_config = STRICT

    default: Annotated[tuple[str, ...], AfterValidator(_are_patterns)] = ()
    """The `egress` of manifests without one."""
    allow: Annotated[tuple[str, ...], AfterValidator(_are_patterns)] = ("*",)
    """The hosts that any manifest's `egress` and any built-in tool can reach at most."""
    allow_private: Annotated[tuple[str, ...], AfterValidator(_are_hosts)] = ()
    """`host:port` entries that can have private addresses."""


class SandboxSection(BaseModel):
    """`[sandbox]`: the engine of scripts, and whether the operating system confines them."""

    model_config = STRICT

    engine: Engine = "wasm"
    """The engine of scripts whose manifest names none: `wasm`, or `deno` if it is installed."""
    allow: tuple[Engine, ...] = ("wasm", "deno")
    """The engines that manifests can name."""
    hardened: bool | Literal["auto"] = False
    """Whether each script runs in a process that the operating system confines. `true` refuses to
    start if a layer is missing; `"auto"` uses the available layers and reports the missing ones."""

    @model_validator(mode="after")
    def _is_allowed(self) -> "SandboxSection":
        if self.engine not in self.allow:
            raise ValueError(f"engine {self.engine!r} is not one of allow, {list(self.allow)}")
        return self


def in_engine(engine: Engine | None) -> dict[str, Any]:
    """Return the settings that select one engine; `allow` of the file still applies."""
    return {} if engine is None else {"sandbox": {"engine": engine}}


class FlowSection(BaseModel):
    """`[flows]`: what flows, and agents that work in the project's folder, can do."""

    model_config = STRICT

    autonomous: bool = False
    """Default for `autonomous`: runs that ask no person. A run can override it."""
    config: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """Constants of templates, `${{config.KEY}}`. Steps and flows override them; they override
    those of `.pi/flows/config.yaml`."""
    shell: bool = False
    """Whether shell commands can run: the tool `bash`, and steps of type shell."""
    shell_network: bool = False
    """Whether shell commands can reach the network."""
    shell_sandbox: Literal["auto", "off"] = "auto"
    """`"auto"` runs shell commands confined by the operating system, or not at all; `"off"` runs
    them with all rights of this process."""

    @property
    def shell_settings(self) -> ShellSettings:
        """Return the settings for the shell tools."""
        return ShellSettings(
            is_on=self.shell,
            has_network=self.shell_network,
            is_enclosed=self.shell_sandbox == "auto",
        )


class NotificationEntry(BaseModel):
    """`[notifications.NAME]`: a channel that `send_notification` writes to."""

    model_config = STRICT

    kind: Literal["wecom", "webhook", "slack"]
    """The message format of the channel."""
    webhook: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")
    """The vault key of the webhook's URL: `penstock vault set shared:notifications KEY`."""
    default: bool = False
    """The channel of notifications that name none; `send_notification` always names one."""

    def channel(self, name: str) -> Channel:
        """Return the channel under a name."""
        return Channel(name=name, kind=ChannelKind(self.kind), vault_key=self.webhook)
