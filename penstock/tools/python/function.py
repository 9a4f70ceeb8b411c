"""A Python function as a tool."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from pydantic import ValidationError

from penstock.core.call import Effect
from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.envelope import Json
from penstock.core.errors import DeclarationError
from penstock.core.events import NoteEmitted
from penstock.core.retry import ONCE, RetryPolicy
from penstock.core.schema import Problem, Schema, pointer
from penstock.tools.faults import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import to_json
from penstock.tools.python.blocking import BlockingDetector
from penstock.tools.python.context import ToolContext
from penstock.tools.python.signature import Signature, read_signature
from penstock.tools.spec import Exclusive, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")

TOOL_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
DESCRIPTION_CHARACTERS = 4096
MOST_SECONDS = 3600
MOST_ATTEMPTS = 10
MOST_BACKOFF = 600


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a call that failed in a way that may pass is tried, with waits in seconds."""

    attempts: int = 3
    initial: float = 0.2
    multiplier: float = 2
    maximum: float = 10


class Options(TypedDict, total=False):
    """What `@tool` takes. The defaults are those of a tool that nothing is known about."""

    id: str
    """The tool's name for callers; without it the function's."""
    description: str
    """Without it the docstring up to `Args:`."""
    effect: Literal["none", "read", "write"]
    """What a crash in the middle means; without it `write`, which is not run again."""
    idempotent: bool
    """A write that may run again with the same `idempotency_key`."""
    requires_approval: bool | Json
    """A person must say yes; `{"when": schema}` only if the input matches."""
    direct_call: bool
    """Callable by people and programs, and by any script."""
    requires_permissions: Sequence[str]
    labels: Sequence[str]
    timeout: float
    """Seconds of one attempt; without it 60."""
    retry: Retry | None
    exclusive: Exclusive
    """True: runs alone in its reply. A key, or a function of the input that gives one: in turn."""
    output_schema: Json | None
    """Without it, that of the return hint."""


class FunctionTool(Generic[P, R]):
    """A tool that is a Python function; calling it calls the function."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], **options: Unpack[Options]) -> None:
        self._function: Callable[P, R] = function
        if not inspect.isroutine(function):
            raise TypeError(f"@tool is for functions, not for {function!r}")
        if unknown := [name for name in options if name not in Options.__annotations__]:
            hint = did_you_mean(unknown[0], Options.__annotations__)
            raise TypeError(f"@tool has no argument {unknown[0]!r}.{hint}")
        self._options = options
        self._is_async = inspect.iscoroutinefunction(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, without a runtime."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        """Return the tool's name and its function's place."""
        return f"<tool {self.tool_id!r} of {self._function.__module__}>"

    @property
    def tool_id(self) -> str:
        """The name for callers."""
        return self._options.get("id", self._function.__name__)

    @property
    def line(self) -> int:
        """Where the function stands in its file."""
        return self._signature.line

    @cached_property
    def spec(self) -> ToolSpec:
        """What callers may know. Raises DeclarationError with all that is wrong."""
        if findings := self.check():
            raise DeclarationError(findings)
        options, signature = self._options, self._signature
        return ToolSpec(
            tool_id=self.tool_id,
            description=self._description,
            input_schema=signature.input_schema,
            output_schema=options.get("output_schema", signature.output_schema),
            timeout_ms=round(1000 * options.get("timeout", 60)),
            effect=Effect(options.get("effect", Effect.WRITE)),
            idempotent=options.get("idempotent", False),
            direct_call=options.get("direct_call", False),
            requires_permissions=frozenset(options.get("requires_permissions", ())),
            requires_approval=options.get("requires_approval", False),
            retry=_policy(options.get("retry")),
            exclusive=options.get("exclusive", False),
            labels=tuple(options.get("labels", ())),
            kind="python",
        )

    def check(self) -> list[Diagnostic]:
        """Return everything that is wrong with the tool, with lines."""
        found = list(self._signature.findings)
        if not TOOL_ID.fullmatch(self.tool_id):
            wanted = f"{self.tool_id!r} is no tool id; wanted {TOOL_ID.pattern}"
            found.append(self._finding("bad-id", wanted))
        if not self._description:
            text = f"tool {self.tool_id!r} has no description; write a docstring"
            found.append(self._finding("missing-description", text))
        elif len(self._description) > DESCRIPTION_CHARACTERS:
            text = f"the description has over {DESCRIPTION_CHARACTERS} characters"
            found.append(self._finding("bad-value", text))
        for name, wanted in _wrong(self._options):
            given = self._options.get(name)
            text = f"{name!r} of tool {self.tool_id!r} must be {wanted}, not {given!r}"
            found.append(self._finding("bad-value", text))
        return found

    def preview(self, output: Any) -> str | None:
        """Leave it to the usual one."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the function returns, as JSON."""
        signature = self._signature
        values = self._values(input, signature)
        for name in signature.contexts:
            values[name] = ToolContext(invocation)
        world = invocation.inside.world
        function = cast("Callable[..., Any]", self._function)
        if self._is_async:
            output = await BlockingDetector(
                function(**values),
                world.clock.monotonic,
                world.limits.blocking_seconds,
                partial(_warn, invocation),
            )
        else:
            output = await invocation.inside.threads.run(partial(function, **values))
        return to_json(output, world.limits.json_depth)

    @cached_property
    def _signature(self) -> Signature:
        """What the function says of itself; read late, when every name in its hints is defined."""
        return read_signature(self._function)

    @property
    def _description(self) -> str:
        return self._options.get("description", self._signature.description).strip()

    def _values(self, input: Json, signature: Signature) -> dict[str, Any]:
        """Return typed values of what was given; the function has its own defaults for the rest."""
        plain = signature.plain
        for name, value in input.items():
            if type(value) is not plain.get(name):
                break
        else:
            return dict(input)
        try:
            made = signature.model.model_validate(input)
        except ValidationError as error:
            problems = [
                Problem(pointer([*each["loc"]]), each["msg"])
                for each in error.errors(include_url=False, include_context=False)
            ]
            raise invalid(self.tool_id, problems) from None
        names = signature.names
        return {names[field]: getattr(made, field) for field in made.model_fields_set}

    def _finding(self, code: str, message: str) -> Diagnostic:
        place = getattr(self._function, "__code__", None)
        return Diagnostic(
            code=code,
            message=message,
            file=Path(place.co_filename).name if place else "",
            line=self.line,
        )


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool; it stays callable as a function."""
    if function is not None:
        return FunctionTool(function, **options)
    return lambda function: FunctionTool(function, **options)


def _warn(invocation: Invocation, seconds: float) -> None:
    message = (
        f'"{invocation.spec.tool_id}" kept the event loop for {seconds:.2f} s while others waited; '
        "make it a plain def, which runs in a thread, or await"
    )
    invocation.note(NoteEmitted(event_type="tool.blocking", message=message, level="warning"))


def _policy(retry: Retry | None) -> RetryPolicy:
    if retry is None:
        return ONCE
    return RetryPolicy(
        max_attempts=retry.attempts,
        initial_backoff_ms=round(1000 * retry.initial),
        multiplier=retry.multiplier,
        max_backoff_ms=round(1000 * retry.maximum),
    )


def _wrong(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return which options have no meaning, and what would have one."""
    checks: list[tuple[str, str, Callable[[Any], bool]]] = [
        ("effect", "one of none, read, write", lambda value: value in {*Effect}),
        ("timeout", f"a number up to {MOST_SECONDS} seconds", _is_timeout),
        ("retry", f"a Retry of 1 to {MOST_ATTEMPTS} attempts, or None", _is_retry),
        ("requires_approval", "True, False or {'when': schema}", _is_approval),
        ("requires_permissions", "a list of permissions", _is_list),
        ("labels", "a list of texts", _is_list),
        ("exclusive", "True, False, a key or a function", lambda v: callable(v) or _is_key(v)),
        ("output_schema", "a JSON Schema, or None", lambda v: v is None or _is_schema(v)),
    ]
    return [
        (name, said) for name, said, fits in checks if name in options and not fits(options[name])
    ]


def _is_timeout(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value <= MOST_SECONDS


def _is_retry(value: Any) -> bool:
    if not isinstance(value, Retry):
        return value is None
    waits = (value.initial, value.maximum)
    return 1 <= value.attempts <= MOST_ATTEMPTS and all(0 <= each <= MOST_BACKOFF for each in waits)


def _is_approval(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, Mapping) and set(value) == {"when"} and _is_schema(value["when"])


def _is_schema(value: Any) -> bool:
    try:
        Schema(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_list(value: Any) -> bool:
    return not isinstance(value, str) and all(isinstance(each, str) and each for each in value)


def _is_key(value: Any) -> bool:
    return isinstance(value, bool | str) and value != ""
