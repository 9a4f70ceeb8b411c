"""The sections of penstock.toml: models, rules, server, rate limits, tools, flows."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from penstock.core.json_values.schema import Schema
from penstock.core.profile import APPROVE, CHAT, LOCAL_PROFILE, MANAGE, READ, Profile
from penstock.resources.channels import Channel, ChannelKind
from penstock.resources.hosts import read_patterns, read_private
from penstock.tools.access.rules import Action, Rule
from penstock.tools.shell import ShellSettings

STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)
"""How a section is read: every key is known, and has its own type."""
Engine = Literal["wasm", "deno"]


def _is_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema if it is one."""
    if schema is not None:
        Schema(schema)
    return schema


class ModelEntry(BaseModel):
    """`[models.NAME]`: one model under a name of your own."""

    model_config = ConfigDict(**STRICT, protected_namespaces=())

    provider: str = Field(min_length=1)
    """`offline`; on the OpenAI chat wire `openai`, `openai-compatible`, `llama.cpp`, `ollama`,
    `vllm`; through Pydantic AI `anthropic`, `bedrock`, `cohere`, `deepseek`, `fireworks`, `google`,
    `google-cloud`, `groq`, `huggingface`, `mistral`, `openai-responses`, `openrouter`, `together`,
    and any other that it knows."""
    model: str = ""
    """The provider's name for it."""
    base_url: str | None = None
    """Where an OpenAI-compatible server answers, such as `http://127.0.0.1:11434/v1`."""
    api_key_env: str | None = None
    """The environment variable that holds the key; usually the variable of the provider, such as
    `OPENAI_API_KEY`. With a `base_url` there is no usual one. The key is never in a file."""
    context_tokens: int | None = Field(default=None, gt=0)
    """How much the model can read."""
    input_price: float | None = Field(default=None, ge=0)
    """USD per million tokens read."""
    output_price: float | None = Field(default=None, ge=0)
    """USD per million tokens written."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Members added to the body of every request; `null` leaves one out of it."""


class ModelSection(BaseModel):
    """`[models]`: which models there are, and which one is the default."""

    model_config = ConfigDict(**{**STRICT, "extra": "allow"})
    __pydantic_extra__: dict[str, ModelEntry] = Field(init=False)

    default: str = "offline"
    """A name from `[models.NAME]`, or `provider:model`."""
    roles: dict[str, str] = Field(default_factory=dict)
    """The model of each role, for agents whose model is `@role`."""

    @property
    def entries(self) -> Mapping[str, ModelEntry]:
        """Return the models by name."""
        return self.__pydantic_extra__ or {}


class RuleEntry(BaseModel):
    """`[[rules]]`: whether calls of some tools are allowed, asked for, or denied."""

    model_config = STRICT

    tool: str = Field(min_length=1)
    """A pattern for tool ids, such as `send_*`."""
    action: Literal["allow", "ask", "deny"]
    """Of all rules that fit, deny beats ask beats allow."""
    agent: str = "*"
    """A pattern for names of agents."""
    labels: tuple[str, ...] = ()
    """Only tools with one of these labels."""
    when: Annotated[dict[str, Any] | None, AfterValidator(_is_schema)] = None
    """Only calls whose input matches this JSON Schema."""

    def rule(self) -> Rule:
        """Return the rule that the invoker asks."""
        return Rule(
            tool=self.tool,
            action=Action(self.action),
            agent=self.agent,
            labels=frozenset(self.labels),
            when=None if self.when is None else Schema(self.when),
        )


class ServerSection(BaseModel):
    """`[server]`: where `penstock serve` listens, and to whom."""

    model_config = STRICT

    host: str = "127.0.0.1"
    """The address to bind; any but this machine's own needs a key (`penstock keys create`)."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port to bind; 0 takes a free one."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may use the API."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose X-Forwarded-For is believed."""
    request_wait_seconds: float | None = Field(default=None, gt=0)
    """How long a chat without a stream waits; the limit of that name if it is not set."""
    blob_url_seconds: int | None = Field(default=None, gt=0)
    """How long a signed link works; the limit of that name if it is not set."""
    public_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """Where people find this server, as links of `/web` say it; empty is its address and port."""

    @property
    def web_url(self) -> str:
        """Where people find the web page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"


class RateSection(BaseModel):
    """`[rate_limits]`: requests per minute of one key or address; 0 is no limit."""

    model_config = STRICT

    chat: int = Field(default=20, ge=0)
    """Messages and regenerated answers."""
    bulk: int = Field(default=10, ge=0)
    """Deletions of many things at once."""
    general: int = Field(default=100, ge=0)
    """Everything else."""


class ToolSection(BaseModel):
    """`[tools]`: which tools are loaded, and which built-in ones chats are offered."""

    model_config = STRICT

    python: bool = True
    """Whether `tools/*.py` run. They run in this process, with all its rights."""
    builtin: tuple[str, ...] = ()
    """Families of built-in tools that chats are offered beside the core: `agents`, `archive`,
    `artifacts`, `download`, `files`, `media`, `notify`, `sheets`, `shell`, `skills` and
    `workspace`."""
    strict: bool = False
    """Whether anything that is wrong with the project's files stops the start."""


class LocalSection(BaseModel):
    """`[local]`: who works here without a key."""

    model_config = STRICT

    permissions: tuple[str, ...] | None = None
    """Permissions of the profile `local` beside read, chat, approve and manage: those that tools
    and skills want, and `admin`, which is all; without the setting it has all."""

    @property
    def profile(self) -> Profile:
        """Return who works here without a key."""
        if self.permissions is None:
            return LOCAL_PROFILE
        return Profile(permissions=frozenset({READ, CHAT, APPROVE, MANAGE, *self.permissions}))


def _are_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns if each is one."""
    read_patterns(patterns)
    return patterns


def _are_places(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries if each names a host."""
    read_private(entries)
    return entries


class EgressSection(BaseModel):
    """`[egress]`: which hosts scripts and built-in tools may reach."""

    model_config = STRICT

    default: Annotated[tuple[str, ...], AfterValidator(_are_patterns)] = ()
    """`egress` of manifests that say nothing about it."""
    allow: Annotated[tuple[str, ...], AfterValidator(_are_patterns)] = ("*",)
    """The outer bound of every manifest's `egress`, and of what built-in tools download."""
    allow_private: Annotated[tuple[str, ...], AfterValidator(_are_places)] = ()
    """`host:port` entries that may be at private addresses."""


class SandboxSection(BaseModel):
    """`[sandbox]`: in which engine scripts run, and whether the system confines them."""

    model_config = STRICT

    engine: Engine = "wasm"
    """For scripts whose manifest has no wish: `wasm`, or `deno`, which has to be installed."""
    allow: tuple[Engine, ...] = ("wasm", "deno")
    """The engines that manifests may wish for."""
    hardened: bool | Literal["auto"] = False
    """Whether each script runs in a process that the system confines. `true` does not start where
    a layer is missing; `"auto"` goes on with what there is, and says what is missing."""

    @model_validator(mode="after")
    def _is_allowed(self) -> "SandboxSection":
        if self.engine not in self.allow:
            raise ValueError(f"engine {self.engine!r} is not one of allow, {list(self.allow)}")
        return self


def in_engine(engine: Engine | None) -> dict[str, Any]:
    """Return what wins over the file where one engine is asked for; `allow` still holds."""
    return {} if engine is None else {"sandbox": {"engine": engine}}


class FlowSection(BaseModel):
    """`[flows]`: what flows, and agents at work in the project's folder, may do."""

    model_config = STRICT

    autonomous: bool = False
    """Whether runs ask nobody, unless who starts one says it."""
    config: dict[str, str | bool | int | float] = Field(default_factory=dict)
    """Constants of templates, `${{config.KEY}}`, where neither step nor flow has them; they win
    over those of `.pi/flows/config.yaml`."""
    shell: bool = False
    """Whether shell commands run at all: the tool `bash`, and steps of the type shell."""
    shell_network: bool = False
    """Whether they reach the network."""
    shell_sandbox: Literal["auto", "off"] = "auto"
    """`"auto"` runs them where the system confines them, and nowhere else; `"off"` runs them
    with all rights of this process."""

    @property
    def shell_settings(self) -> ShellSettings:
        """Return what the tools are told."""
        return ShellSettings(
            is_on=self.shell,
            has_network=self.shell_network,
            is_enclosed=self.shell_sandbox == "auto",
        )


class NotificationEntry(BaseModel):
    """`[notifications.NAME]`: a channel that `send_notification` writes to."""

    model_config = STRICT

    kind: Literal["wecom", "webhook", "slack"]
    """Whose language it speaks."""
    webhook: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")
    """The key of its address in the vault: `penstock vault set shared:notifications KEY`."""
    default: bool = False
    """For what names no channel; `send_notification` always names one."""

    def channel(self, name: str) -> Channel:
        """Return the channel of this name."""
        return Channel(name=name, kind=ChannelKind(self.kind), vault_key=self.webhook)
