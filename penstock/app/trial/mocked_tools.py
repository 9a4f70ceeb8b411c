"""Tools, secrets and servers with the outcomes of a mocks file."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from penstock.app.trial.mocks import is_envelope
from penstock.core.call_errors import ToolFailed, VaultNotFound
from penstock.core.envelope import Envelope, Json, Status
from penstock.core.state import Scope, ScopeKind
from penstock.resources.egress import Egress, EgressCaller, HttpResponse, Request
from penstock.resources.vault import SecretListing, Vault
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool


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
        """What callers may know."""
        return self._tool.spec

    def preview(self, output: Any) -> str | None:
        """Return the preview of the real tool."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the next outcome, or the one for all calls; the call that is tried out is real."""
        if not invocation.call.depth:
            return await self._tool.run(input, invocation)
        outcome = self._next() if self._several else self._outcome
        envelope = _envelope(outcome)
        if envelope.error is None:
            return envelope.output
        error = envelope.error
        failure = ToolFailed(
            error.message,
            retryable=error.retryable,
            continuable=error.continuable,
            details=error.details,
        )
        failure.code, failure.status = error.code, envelope.status
        raise failure

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


class MockedEgress(Egress):
    """Answers the requests that the mocks contain; other requests are real."""

    def __init__(self, answers: Iterable[Json], usual: Egress) -> None:
        self._answers = list(answers)
        self._usual = usual

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Return the first answer whose URL and method are those of the request."""
        for each in self._answers:
            method = each.get("method", request.method).upper()
            if _whole(each["url"]) == _whole(request.url) and method == request.method.upper():
                return _answer(each)
        return await self._usual.fetch(request, asker)


def _whole(url: str) -> str:
    """Return a URL with its path, which nobody writes of a host alone."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path or "/").geturl()


def _envelope(outcome: Any) -> Envelope:
    """Return an outcome as an envelope; what does not look like one is an output."""
    if is_envelope(outcome):
        if outcome["status"] == Status.SUCCESS:
            return Envelope(Status.SUCCESS, outcome.get("output"))
        said = {"code": "TOOL_FAILED", "message": "the mocks say so", **outcome.get("error", {})}
        if "question_id" in outcome:
            said["details"] = {"question_ids": [outcome["question_id"]]}
        return Envelope.from_wire({"status": outcome["status"], "error": said})
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
