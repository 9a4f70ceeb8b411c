"""A mocks file, and the tools, secrets and servers with the outcomes that it declares."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from penstock.core.call_errors import ToolFailed, VaultNotFound
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Envelope, ErrorDetail, Json, Status
from penstock.core.errors import ConfigError
from penstock.core.json_values.schema import Schema
from penstock.core.scopes import Scope, ScopeKind
from penstock.resources.egress import Egress, EgressCaller, HttpResponse, Request
from penstock.resources.vault import SecretListing, Vault
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

KEYS = ("vault", "runtime_config", "state", "state_bindings", "context", "tools", "fetch")
STATES = tuple(ScopeKind)
_TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_ENTRY: Json = {
    "type": "object",
    "required": ["value", "revision"],
    "properties": {
        "value": True,
        "revision": {"type": "string", "minLength": 1},
        "expires_at": {"type": "string", "format": "date-time"},
    },
}
_ENTRIES: Json = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": _ENTRY},
}
_ANSWER: Json = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string"},
        "method": {"type": "string"},
        "status": {"type": "integer", "minimum": 100, "maximum": 599},
        "headers": _TEXTS,
        "body": True,
    },
}
_PARTS = {"status", "output", "error", "question_id"}
_STATUSES = {each.value for each in Status}
_ERROR: Json = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "minLength": 1},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "continuable": {"type": "boolean"},
        "details": {"type": "object"},
        "suggestion": {"type": "string"},
    },
}
_ENVELOPE = Schema({"properties": {"error": _ERROR, "question_id": {"type": "string"}}})
_SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "vault": {
                "type": "object",
                "properties": {
                    "profile": _TEXTS,
                    "shared": {"type": "object", "additionalProperties": _TEXTS},
                },
            },
            "runtime_config": _TEXTS,
            "state": {"type": "object", "additionalProperties": _ENTRIES},
            "context": {"type": "object"},
            "tools": {"type": "object"},
            "fetch": {"type": "array", "items": _ANSWER},
        },
    }
)


class Mocks(Struct, frozen=True, kw_only=True):
    """The contents of a mocks file."""

    has_vault: bool = False
    """Whether the file has a `vault` section; then there are no other secrets."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The secrets of the profile."""
    shared_secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The shared secrets, by scope id."""
    runtime_config: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[ScopeKind, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)
    """The entries of the State, by kind, scope id and key."""
    has_state_bindings: bool = False
    """Whether the file has state bindings. They are ignored: those of the manifest apply."""
    context: Json = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    """The outcomes of nested calls, by tool."""
    fetch: Sequence[Json] = ()


def read_mocks(raw: Any, tools: Sequence[str]) -> Mocks:
    """Parse the JSON of a mocks file for a project with these tools.

    Raises ConfigError, with every problem: an unknown key with the nearest name.
    """
    problems = [str(each) for each in _SCHEMA.problems(raw)]
    if not problems:
        problems = list(_unknown(raw, tools))
    if problems:
        raise ConfigError("The mocks cannot be used: " + "; ".join(problems))
    vault, state = raw.get("vault", {}), raw.get("state", {})
    return Mocks(
        has_vault="vault" in raw,
        secrets=vault.get("profile", {}),
        shared_secrets=vault.get("shared", {}),
        runtime_config=raw.get("runtime_config", {}),
        state={ScopeKind(kind): entries for kind, entries in state.items()},
        has_state_bindings="state_bindings" in raw,
        context=raw.get("context", {}),
        tools=raw.get("tools", {}),
        fetch=raw.get("fetch", []),
    )


def is_envelope(outcome: Any) -> bool:
    """Whether the outcome of a tool looks like an envelope; any other is an output."""
    if not isinstance(outcome, Mapping) or not _PARTS.issuperset(outcome):
        return False
    status = outcome.get("status")
    return isinstance(status, str) and status in _STATUSES


def _unknown(raw: Json, tools: Sequence[str]) -> Iterator[str]:
    """Yield unknown names and ambiguous scopes."""
    yield from _unknown_keys("", raw, KEYS)
    yield from _unknown_keys("/vault", raw.get("vault", {}), ("profile", "shared"))
    yield from _unknown_keys("/tools", raw.get("tools", {}), tools)
    yield from _check_envelopes(raw.get("tools", {}))
    for number, answer in enumerate(raw.get("fetch", ())):
        yield from _unknown_keys(f"/fetch/{number}", answer, _ANSWER["properties"])
        yield from _check_url(f"/fetch/{number}", answer["url"])
    state = raw.get("state", {})
    yield from _unknown_keys("/state", state, STATES)
    for kind, scopes in state.items():
        if kind != ScopeKind.SHARED and len(scopes) > 1:
            yield f"/state/{kind}: has {len(scopes)} scopes; one scope means the local one"
        for scope_id, entries in scopes.items():
            for key, entry in entries.items():
                path = f"/state/{kind}/{scope_id}/{key}"
                yield from _unknown_keys(path, entry, _ENTRY["properties"])
                yield from _check_time(path, entry.get("expires_at"))


def _check_envelopes(tools: Json) -> Iterator[str]:
    """Yield the errors of outcomes that look like envelopes."""
    for tool_id, mocked in tools.items():
        outcomes = mocked if isinstance(mocked, list) else [mocked]
        for number, outcome in enumerate(outcomes):
            path = f"/tools/{tool_id}/{number}" if outcomes is mocked else f"/tools/{tool_id}"
            if is_envelope(outcome):
                problems = [f"{path}{each}" for each in _ENVELOPE.problems(outcome)]
                error = outcome.get("error", {})
                yield from problems or _unknown_keys(f"{path}/error", error, _ERROR["properties"])


def _check_url(path: str, url: str) -> Iterator[str]:
    try:
        has_host = bool(urlsplit(url).netloc)
    except ValueError:
        has_host = False
    if not has_host:
        yield f"{path}/url: is written as https://api.example.com/v1, found {url!r}"


def _check_time(path: str, moment: str | None) -> Iterator[str]:
    try:
        datetime.fromisoformat(moment or "2000-01-01")
    except ValueError:
        yield f"{path}/expires_at: is written as 2030-01-31T12:00:00Z, found {moment!r}"


def _unknown_keys(path: str, names: Json, known: Any) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{path}/{name}: there is no such key.{did_you_mean(name, known)}"


class MockedTool:
    """A tool with mocked outcomes; its permissions and its input are checked as usual."""

    def __init__(self, tool: Tool, outcomes: Any) -> None:
        self._tool = tool
        self._several = isinstance(outcomes, list)
        self._outcomes: Iterator[Any] = iter(outcomes if self._several else ())
        self._outcome = outcomes
        self._count = 0

    @property
    def spec(self) -> ToolSpec:
        """The specification of the real tool."""
        return self._tool.spec

    def preview(self, output: Any) -> str | None:
        """Return the default preview."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the next outcome, or the one for all calls; the call that is tried out is real."""
        if not invocation.call.depth:
            return await self._tool.run(input, invocation)
        outcome = self._next() if self._several else self._outcome
        envelope = _envelope(outcome)
        if envelope.error is None:
            return envelope.output
        raise error_of(envelope, envelope.error)

    def _next(self) -> Any:
        self._count += 1
        nothing = object()
        outcome = next(self._outcomes, nothing)
        if outcome is nothing:
            before = self._count - 1
            raise ToolFailed(
                f'the mocks have {before} outcomes of "{self.spec.tool_id}": '
                f"there is none for call {self._count}"
            )
        return outcome


def error_of(envelope: Envelope, detail: ErrorDetail) -> ToolFailed:
    """Return the error by which a tool gets an envelope with this detail."""
    failure = ToolFailed(
        detail.message,
        retryable=detail.retryable,
        continuable=detail.continuable,
        details=detail.details,
    )
    # It may have a code and a status of the runtime, which the constructor refuses.
    failure.code, failure.status = detail.code, envelope.status
    return failure


class MockedEgress(Egress):
    """Answers the requests that the mocks contain; other requests are real."""

    def __init__(self, answers: Iterable[Json], usual: Egress) -> None:
        self._answers = list(answers)
        self._usual = usual

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Return the first answer whose URL and method are those of the request."""
        for answer in self._answers:
            method = answer.get("method", request.method).upper()
            if (
                _with_path(answer["url"]) == _with_path(request.url)
                and method == request.method.upper()
            ):
                return _answer(answer)
        return await self._usual.fetch(request, asker)


def _with_path(url: str) -> str:
    """Return a URL with its path; that of a host without a path is `/`."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path or "/").geturl()


def _envelope(outcome: Any) -> Envelope:
    """Return an outcome as an envelope; what does not look like one is an output."""
    if is_envelope(outcome):
        if outcome["status"] == Status.SUCCESS:
            return Envelope(Status.SUCCESS, outcome.get("output"))
        error = {"code": "TOOL_FAILED", "message": "the mocks say so", **outcome.get("error", {})}
        if "question_id" in outcome:
            error["details"] = {"question_ids": [outcome["question_id"]]}
        return Envelope.from_wire({"status": outcome["status"], "error": error})
    return Envelope(Status.SUCCESS, outcome)


def _answer(mocked: Json) -> HttpResponse:
    body = mocked.get("body", "")
    headers = {name.lower(): value for name, value in mocked.get("headers", {}).items()}
    if not isinstance(body, str):
        body = json.dumps(body, ensure_ascii=False)
        headers.setdefault("content-type", "application/json")
    return HttpResponse(
        status=mocked.get("status", 200), url=mocked["url"], headers=headers, body=body.encode()
    )


class MockedVault:
    """The secrets of the mocks; an error about another one says how a trial gets it."""

    def __init__(self, vault: Vault, *, keeps: bool) -> None:
        """Wrap a vault that holds the secrets of the mocks; `keeps`: the store is the project's."""
        self._vault = vault
        self._keeps = keeps

    async def set(self, scope: Scope, key: str, value: str) -> None:
        """Set a secret until the end of the trial."""
        await self._vault.set(scope, key, value)

    async def get(self, scope: Scope, key: str) -> str:
        """Return a secret of the mocks. Raises VaultNotFound."""
        try:
            return await self._vault.get(scope, key)
        except VaultNotFound:
            kind = ScopeKind.PROFILE.value if scope.kind is ScopeKind.PROFILE else str(scope)
            place = f"vault.{kind.replace(':', '.', 1)}.{key}"
            missing = f'a trial has no value for the vault key "{key}" in {scope}'
            if self._keeps:
                raise VaultNotFound(
                    f"{missing}: write it as {place} into the mocks, or take "
                    '"vault" out of them to use the vault of the project'
                ) from None
            raise VaultNotFound(
                f"{missing}: write it as {place} into a file for --mocks, or give --store "
                "to use the vault of the project"
            ) from None

    async def notes(self, scope: Scope | None = None) -> Sequence[SecretListing]:
        """Return the names of the mocks' secrets."""
        return await self._vault.notes(scope)

    async def delete(self, scope: Scope, key: str) -> bool:
        """Remove a secret from the trial."""
        return await self._vault.delete(scope, key)

    async def rotate(self) -> int:
        """Encrypt all secrets again, until the end of the trial."""
        return await self._vault.rotate()
