"""Sections of penstock.toml about work without a request: webhooks, and what a server deletes."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field

from penstock.app.settings_sections import STRICT
from penstock.store.logs.webhook import Webhook
from penstock.store.upkeep.rules import RetentionPlan, RetentionRule


def _is_address(url: str) -> str:
    """Return the URL of a webhook. Raises ValueError for one that nothing can be sent to."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http or https URL")
    if parts.username is not None or parts.fragment:
        raise ValueError("must have no user, password or fragment; the signature proves the sender")
    return url


class WebhookEntry(BaseModel):
    """`[[webhooks]]`: a server that receives events of tasks."""

    model_config = STRICT

    url: Annotated[str, AfterValidator(_is_address)]
    """The address of the receiver. `[egress]` must allow it."""
    events: tuple[Literal["task.ended", "question.asked"], ...] = Field(min_length=1)
    """The events that it receives."""
    secret: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")
    """The vault key of the secret that signs: `penstock vault set shared:webhooks KEY`."""
    agents: tuple[str, ...] = ("*",)
    """Patterns of agents."""
    kinds: tuple[str, ...] = ("*",)
    """Patterns of kinds of tasks, such as `message`, `call` or `flow`."""
    content: bool = False
    """Whether deliveries contain answers, outputs and arguments of calls."""

    @property
    def webhook(self) -> Webhook:
        """Return the webhook."""
        return Webhook(
            url=self.url,
            events=self.events,
            vault_key=self.secret,
            agents=self.agents,
            kinds=self.kinds,
            has_content=self.content,
        )


class SchedulesSection(BaseModel):
    """`[schedules]`: what the schedules of the project's files may do."""

    model_config = STRICT

    permissions: tuple[str, ...] = ()
    """Permissions of schedules without a profile; their tasks belong to the profile `project`."""


def are_different(entries: tuple[WebhookEntry, ...]) -> tuple[WebhookEntry, ...]:
    """Return the webhooks. Raises ValueError if two have one URL: their ids would be the same."""
    urls = [each.url for each in entries]
    if len(set(urls)) < len(urls):
        raise ValueError("two webhooks have the same url; put their events into one")
    return entries


class RetentionEntry(BaseModel):
    """`[[retention.rules]]`: delete old conversations, calls or runs."""

    model_config = STRICT

    of: Literal["conversations", "calls", "runs"]
    """Conversations; direct calls of tools; runs of flows. Nothing that is open is deleted."""
    days: float = Field(gt=0)
    """The age of the newest event from which on they are deleted."""
    status: tuple[Literal["succeeded", "failed", "cancelled"], ...] = ()
    """Only if all their tasks ended like this; empty means any end."""
    agent: str = "*"
    """A pattern for the name of the agent; for runs, of the flow."""

    @property
    def rule(self) -> RetentionRule:
        """The rule for the sweeper."""
        status = frozenset[str](self.status)
        return RetentionRule(of=self.of, days=self.days, status=status, agent=self.agent)


class RetentionSection(BaseModel):
    """`[retention]`: what a server deletes in the background, every hour."""

    model_config = STRICT

    rules: tuple[RetentionEntry, ...] = ()
    """The rules, of which one must match; without rules, nothing is deleted."""
    step: int = Field(default=20, ge=1, le=1000)
    """How many are deleted in one step."""
    pause_seconds: float = Field(default=1, ge=0)
    """The pause after each step."""

    @property
    def plan(self) -> RetentionPlan:
        """The rules for the sweeper."""
        rules = (
            RetentionRule(
                of=each.of, days=each.days, status=frozenset(each.status), agent=each.agent
            )
            for each in self.rules
        )
        return RetentionPlan(rules=tuple(rules), step=self.step, pause_seconds=self.pause_seconds)
