"""A Python function as a tool.

The decorator checks only what needs no hints: that it got a function, and the names of its options.
Hints are read at the first use of `spec`, `check` or `run`, because they may name classes below the
function in its module. `check` returns all mistakes together, each with a line; `spec` raises
DeclarationError if there is an error among them.

`run` relies on the invoker, which has checked the input against the schema. If all values are
scalars of exactly the hinted types they are passed on as they are; otherwise pydantic makes the
typed values from a copy, so a function cannot change the recorded input. A plain `def` runs in a
thread; an `async def` on the event loop, where steps over 0.1 s are reported. Proof: test_function.
"""

import inspect
from base64 import b64decode
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from reprlib import Repr
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.diagnostics import Diagnostic, Severity, did_you_mean, errors_of
from penstock.core.envelope import Json
from penstock.core.errors import DeclarationError
from penstock.core.events.events import NoteEmitted
from penstock.core.foreign_code import BlockingDetector
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.json_values.schema import Problem, pointer
from penstock.core.late import late
from penstock.core.text import ERROR_CHARS, cut
from penstock.resources.dependencies import MISSING, NO_DEPS, Depends
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import at_bytes, own_copy, plain_base64, to_json
from penstock.tools.python.context import ToolContext, scope_of_call
from penstock.tools.python.options import (
    RESERVED,
    TOOL_ID,
    Options,
    is_input_schema,
    retry_policy,
    revert_id,
    wrong_options,
)
from penstock.tools.python.signature import Signature
from penstock.tools.spec import ToolSpec

BLOCKING_SECONDS = 0.1
"""Longest step of an async tool, in seconds, without a warning that it blocks the event loop."""

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
D = TypeVar("D")
NeedsT_contra = TypeVar("NeedsT_contra", contravariant=True)
"""The type of the dependencies that a tool needs; `object` if it needs none."""

DESCRIPTION_CHARACTERS = 4096
ReadSignature = Callable[[Callable[..., Any], Json | None], Signature]


class FunctionTool(Generic[NeedsT_contra, P, R_co]):
    """A Python function as a tool. Calling it calls the function."""

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(self, function: Callable[P, R_co], **options: Unpack[Options]) -> None:
        self._function: Callable[P, R_co] = function
        if not inspect.isroutine(function):
            raise TypeError(f"@tool is for functions, not for {function!r}")
        if isinstance(function, classmethod):
            raise TypeError("@tool must be the lower decorator: write @classmethod above it")
        if unknown := [name for name in options if name not in Options.__annotations__]:
            hint = did_you_mean(unknown[0], Options.__annotations__)
            raise TypeError(f"@tool has no argument {unknown[0]!r}.{hint}")
        self._options = options
        self._is_async = inspect.iscoroutinefunction(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function, without a runtime."""
        return self._function(*args, **kwargs)

    def _needs(self, deps: NeedsT_contra, /) -> None:
        """Tell type checkers which dependencies it needs."""

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(
        self: "FunctionTool[D, Concatenate[S, Q], R]", instance: S, owner: Any
    ) -> "FunctionTool[D, Q, R]": ...
    # For checkers that cannot bind `self` by Concatenate.
    @overload
    def __get__(self, instance: object, owner: Any) -> "FunctionTool[NeedsT_contra, ..., R_co]": ...
    def __get__(self, instance: object | None, owner: Any = None) -> Any:
        """Bind a method to its object as a function does: `shop.find` is a tool, too."""
        bind = getattr(self._function, "__get__", None)
        if instance is None or bind is None:
            return self
        return FunctionTool(bind(instance, owner), **self._options)

    def __replace__(self, /, *, spec: ToolSpec) -> "FunctionTool[NeedsT_contra, P, R_co]":
        """Return a copy with another specification."""
        made = copy(self)
        made.__dict__["spec"] = spec
        return made

    def __repr__(self) -> str:
        """Return the tool's name and its function's place."""
        return f"<tool {self.tool_id!r} of {self._function.__module__}>"

    @property
    def tool_id(self) -> str:
        """The name for callers."""
        return self._options.get("id", self._function.__name__)

    @property
    def line(self) -> int:
        """The function's line in its file."""
        return self._signature.line

    @property
    def needs(self) -> Any:
        """The type of the deps of its context; None if it needs none."""
        return self._signature.needs

    @property
    def injected(self) -> Mapping[str, tuple[Depends, Any]]:
        """The parameters that functions of `Depends` provide, with their types."""
        signature = self._signature
        return {
            name: (depends, signature.hints[name]) for name, depends in signature.depends.items()
        }

    def _read_spec(self) -> ToolSpec:
        if errors := errors_of(self.check()):
            raise DeclarationError(errors)
        options, signature = self._options, self._signature
        return ToolSpec(
            tool_id=self.tool_id,
            description=self._description.strip(),
            input_schema=signature.input_schema,
            state_family=options.get("state", ""),
            has_default_effect="effect" not in options,
            output_schema=options.get("output_schema", signature.output_schema),
            timeout_ms=round(1000 * options.get("timeout", 60)),
            effect=Effect(options.get("effect", Effect.WRITE)),
            idempotent=options.get("idempotent", False),
            direct_call=options.get("direct_call", False),
            requires_permissions=frozenset(options.get("requires_permissions", ())),
            requires_approval=options.get("requires_approval", False),
            retry=retry_policy(options.get("retry")),
            exclusive=options.get("exclusive", False),
            labels=tuple(options.get("labels", ())),
            revert=revert_id(options.get("revert", "")),
            kind="python",
        )

    # An attribute for type checkers: pyright accepts no `cached_property` for a property of a
    # protocol.
    spec: ToolSpec = cast("ToolSpec", cached_property(_read_spec))
    """The specification, read on first use. Raises DeclarationError with all errors."""

    def check(self) -> list[Diagnostic]:
        """Return all errors of the tool, with lines."""
        findings = list(self._signature.findings)
        description = str(self._description).strip()
        if not TOOL_ID.fullmatch(str(self.tool_id)):
            text = f"{self.tool_id!r} is not a tool id; expected {TOOL_ID.pattern}"
            findings.append(self._finding("bad-id", text))
        if not description:
            text = f"tool {self.tool_id!r} has no description; write a docstring"
            findings.append(self._finding("missing-description", text))
        elif len(description) > DESCRIPTION_CHARACTERS:
            text = f"the description has over {DESCRIPTION_CHARACTERS} characters"
            findings.append(self._finding("bad-value", text))
        wrong = wrong_options(self._options)
        for name, valid in wrong.items():
            value = self._options.get(name)
            # A schema from elsewhere may be of any size and depth.
            text = f"{name!r} of tool {self.tool_id!r} must be {valid}, not {_shown(value)}"
            findings.append(self._finding("bad-value", text))
        promised = (each for each in RESERVED if self._options.get(each) and each not in wrong)
        for name in promised:
            text = f"{name!r} of tool {self.tool_id!r} is reserved and has no effect yet"
            warning = self._finding("reserved-key", text)
            findings.append(replace(warning, severity=Severity.WARNING))
        return findings

    def preview(self, output: Any) -> str | None:
        """Return None: the default line is shown."""
        return None

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return what the function returns, as JSON."""
        signature = self._signature
        values = self._values(input, signature)
        if signature.contexts or signature.depends:
            await _provide(values, signature, invocation)
        world = invocation.edition.world
        function = cast("Callable[..., Any]", self._function)
        if self._is_async:
            output = await BlockingDetector(
                function(**values),
                world.clock.monotonic,
                BLOCKING_SECONDS,
                partial(_warn, invocation),
            )
        else:
            output = await invocation.edition.threads.run(partial(function, **values))
        made = to_json(output, JSON_DEPTH)
        return (
            at_bytes(made, signature.output_schema, plain_base64) if signature.gives_bytes else made
        )

    # Read late: names in its hints may be defined below it in its module.
    @cached_property
    def _signature(self) -> Signature:
        """The function's signature."""
        schema = self._options.get("input_schema")
        if schema is not None and not is_input_schema(schema):
            schema = None  # a wrong value of the option is a finding of its own
        read: ReadSignature = late("penstock.tools.python.hints:read_signature")
        return read(self._function, schema)

    @property
    def _description(self) -> str:
        return self._options.get("description", self._signature.description)

    def _values(self, input: Json, signature: Signature) -> dict[str, Any]:
        """Return typed arguments. The function itself applies its defaults."""
        if signature.foreign is not None:
            return signature.foreign.values(self.tool_id, input)
        plain = signature.plain
        # Scalars of exactly the declared type need no conversion by pydantic.
        for name, value in input.items():
            if type(value) is not plain.get(name):
                break
        else:
            return dict(input)
        arguments = own_copy(input)
        if signature.takes_bytes:
            arguments = at_bytes(arguments, signature.input_schema, self._decoded)
        made = signature.convert(arguments)
        if isinstance(made, list):
            raise invalid(self.tool_id, made)
        return made

    def _decoded(self, text: Any, path: tuple[str | int, ...]) -> Any:
        """Return the bytes of a base64 text. Raises InvalidInput."""
        if not isinstance(text, str):
            return text
        try:
            return b64decode("".join(text.split()), validate=True)
        except ValueError as error:
            problem = Problem(pointer([*path]), f"is not base64: {error}")
            raise invalid(self.tool_id, [problem]) from None

    def _finding(self, code: str, message: str) -> Diagnostic:
        place = getattr(self._function, "__code__", None)
        return Diagnostic(
            code=code,
            message=message,
            file=Path(place.co_filename).name if place else "",
            line=self.line,
        )


class Decorator(Protocol):
    """The result of `@tool(...)`: it makes a function a tool."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[D], P], R], /
    ) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, ToolContext[D], P], R], /
    ) -> FunctionTool[D, Concatenate[S, ToolContext[D], P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[object, P, R]: ...


@overload
def tool(
    function: Callable[Concatenate[ToolContext[D], P], R], /
) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
@overload
def tool(
    function: Callable[Concatenate[S, ToolContext[D], P], R], /
) -> FunctionTool[D, Concatenate[S, ToolContext[D], P], R]: ...
@overload
def tool(function: Callable[P, R], /) -> FunctionTool[object, P, R]: ...
@overload
def tool(**options: Unpack[Options]) -> Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool; it stays callable as a function.

    The hints of the parameters become the input schema, the hint of the result the output schema.
    The docstring is what a model reads; what it says of a parameter goes into the schema. A plain
    `def` runs in a thread, an `async def` on the event loop. A parameter with the hint
    `ToolContext` receives the context of the call.

    Args:
        function: The function, when the decorator has no options.
        **options: `id`, `description`, `effect`, `idempotent`, `requires_approval`, `direct_call`,
            `requires_permissions`, `labels`, `timeout` in seconds, `retry`, `exclusive`,
            `input_schema`, `output_schema`, `state`, `revert`. The table in `docs/tools.md` says
            what each means and its default.

    Returns:
        The tool, or a decorator that returns it.

    Raises:
        TypeError: It is not a function, or an option is unknown. Wrong values of options and hints
            without a schema are findings with a line, when the tool is loaded.

    Example:
        >>> from penstock import tool
        >>> @tool(effect="none", direct_call=True)
        ... def hello(name: str, times: int = 1) -> str:
        ...     '''Greet a person.
        ...
        ...     Args:
        ...         name: The person to greet.
        ...     '''
        ...     return f"Hello, {name}! " * times
        >>> hello("Ann", times=2)
        'Hello, Ann! Hello, Ann! '
        >>> hello.spec.description, hello.spec.input_schema["properties"]["name"]
        ('Greet a person.', {'description': 'The person to greet.', 'type': 'string'})
    """
    if function is not None:
        return FunctionTool(function, **options)
    return lambda function: FunctionTool(function, **options)


_BRIEF = Repr()
_BRIEF.maxlevel = _BRIEF.maxdict = _BRIEF.maxlist = _BRIEF.maxtuple = 10
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 200


def _shown(value: Any) -> str:
    return cut(_BRIEF.repr(value), ERROR_CHARS)


async def _provide(values: dict[str, Any], signature: Signature, invocation: Invocation) -> None:
    """Add the arguments that no model gives: contexts, and what functions of `Depends` provide."""
    deps: Any = MISSING
    if signature.needs is not None or signature.depends:
        dependencies = invocation.edition.resources.dependencies
        if dependencies is None:
            raise ToolNotConfigured(NO_DEPS)
        hold, scope = invocation.ledger.held, scope_of_call(invocation)
        if signature.needs is not None:
            deps = await dependencies.deps(hold, scope)
        for name, depends in signature.depends.items():
            values[name] = await dependencies.injected(hold, scope, depends)
    for name in signature.contexts:
        values[name] = ToolContext(invocation, deps)


def _warn(invocation: Invocation, seconds: float) -> None:
    message = (
        f'"{invocation.spec.tool_id}" kept the event loop for {seconds:.2f} s while others waited; '
        "make it a plain def, which runs in a thread, or await"
    )
    invocation.note(NoteEmitted(event_type="tool.blocking", message=message, level="warning"))
