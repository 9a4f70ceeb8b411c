"""QuickJS in wasm: a machine that runs the modules and jobs of one script.

Guarantees: a script runs only the modules that it was checked with, sees no host function but those
of HOST_FUNCTIONS, and shares no memory with any other. A new machine starts in the state that
`boot` recorded, the same for every script.

How: evaluating our part of the world (the guest sources) takes longer than most scripts run, so
`boot` does it once and keeps the memory pages that differ from those of a new instance, an image. A
machine copies them and sets the stack pointer. Values of the script are handles (integers) that
must be freed.

Relies on the image to hold nothing random or secret, and on `MachineWorld` to check all that the
script sends. Text and bytes from the guest are copied before they are parsed. Proof:
tests/sandbox/wasm/test_machine.py.
"""

from collections.abc import Sequence

from msgspec import Struct

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.core.json_values.json_text import parse_json
from penstock.sandbox.guest import EMPTY_WORLD, MachineWorld, digest
from penstock.sandbox.guest_sources import (
    GUEST,
    HOST_FUNCTIONS,
    guest_source,
    runtime_source,
    source_of,
    url_of,
)
from penstock.sandbox.script import RUNTIME
from penstock.sandbox.wasm.binding import Engine, Instance

_SCRATCH = 65_536
"""Bytes of guest memory for values that are passed in: an allocation for each costs two calls."""
_WORDS = 64
"""Bytes at the start of the scratch memory for pointers, and for one length at _LENGTH."""
_LENGTH = 60
_RESERVE = 2 << 20
"""Bytes beyond the script's limit, so that QuickJS can throw its out-of-memory error."""
_PAGE = 4096
_MEMORY = 64 << 20
_FAILED = 0x8000_0000
_MAX_REJECTIONS = 100


class MachineImage(Struct, frozen=True, kw_only=True):
    """The state of a machine after set-up: the memory pages that differ from a new instance."""

    pieces: Sequence[tuple[int, bytes]]
    size: int
    stack_pointer: int
    pointers: tuple[int, int]
    """The addresses of the runtime and of the context."""
    scratch: int
    undefined: int
    receive: int
    """The handle of the script's function that receives messages of the host."""


class Machine:
    """A QuickJS runtime with one script. After an error it can only be closed."""

    def __init__(self, engine: Engine, image: MachineImage | None, memory: int, stack: int) -> None:
        self.world = EMPTY_WORLD
        self.unhandled: dict[int, tuple[int, int]] = {}
        """Rejected promises by address, each with its handle and the handle of the reason."""
        self._loading: str | None = None
        self.instance = Instance(engine, self, memory)
        self._call, self._quick = self.instance.call, self.instance.quick
        if image is None:
            self._set_up()
        else:
            self._restore(image)
        self._quick("qjs_set_memory_limit", memory - _RESERVE)
        self._quick("qjs_set_max_stack_size", stack)

    def enter(self, world: MachineWorld, entry: str) -> None:
        """Set the world of the machine and the entry module of its script."""
        self.world = world
        self._loading = entry

    def send(self, text: str, attachments: Sequence[bytes] = ()) -> None:
        """Deliver a message to the script and run all jobs that follow."""
        values = [self._new_text(text.encode("utf-8", "surrogatepass"))]
        values += [self._new_bytes(each) for each in attachments]
        self._deliver(values)
        for value in values:
            self._quick("qjs_free_value", value)
        # Once the script has ended, its remaining jobs must not run: they could call the host.
        while not self.world.is_over and (done := self._call("qjs_execute_pending_job")):
            if done & _FAILED:
                raise self._thrown()

    def post_rejections(self) -> None:
        """Make the script post a message for each unhandled rejection."""
        rejected, self.unhandled, self.world.is_over = self.unhandled, {}, False
        for _promise, reason in rejected.values():
            text = self._new_text(b"rejected\n0\n")
            self._deliver([text, reason])

    def image(self, engine: Engine) -> MachineImage:
        """Return the image that new machines start from."""
        fresh = Instance(engine, self, _MEMORY)
        instance = self.instance
        content = instance.read(0, instance.size)
        blank = fresh.read(0, fresh.size)
        fresh.close()
        return MachineImage(
            pieces=_differences(content, blank),
            size=len(content),
            stack_pointer=instance.stack_pointer,
            pointers=(self._quick("qjs_get_runtime_ptr"), self._quick("qjs_get_context_ptr")),
            scratch=self._scratch,
            undefined=self._undefined,
            receive=self._receive,
        )

    def close(self) -> None:
        """Free everything."""
        self.instance.close()

    # ---- set-up

    def _set_up(self) -> None:
        self._call("_initialize")
        if self._call("qjs_init"):
            raise RuntimeError("QuickJS did not start")
        self._quick("qjs_set_module_loader", 1)
        self._quick("qjs_set_promise_rejection_handler", 1)
        self._scratch = self._quick("wasm_malloc", _SCRATCH)
        self._undefined = self._quick("qjs_get_undefined")
        make = self._evaluated(guest_source().encode())
        functions = [self._host_function(name) for name in HOST_FUNCTIONS]
        self._receive = self._apply(make, functions)

    def _restore(self, image: MachineImage) -> None:
        self.instance.grow_to(image.size)
        for address, piece in image.pieces:
            self.instance.write(address, piece)
        self.instance.stack_pointer = image.stack_pointer
        self._quick("qjs_set_runtime_and_context", *image.pointers)
        self._scratch, self._undefined = image.scratch, image.undefined
        self._receive = image.receive

    def _evaluated(self, source: bytes) -> int:
        code, name = self._allocated(source + b"\0"), self._allocated(GUEST.encode() + b"\0")
        value = self._call("qjs_eval", code, len(source), name, 0)
        if self._quick("qjs_is_exception", value):
            raise self._thrown()
        return value

    def _host_function(self, name: str) -> int:
        spelled = self._allocated(name.encode())
        return self._quick("qjs_new_host_function", spelled, len(name), 2)

    # ---- calls and values

    def _deliver(self, values: Sequence[int]) -> None:
        self._quick("qjs_free_value", self._apply(self._receive, values))

    def _apply(self, function: int, values: Sequence[int]) -> int:
        words = b"".join(value.to_bytes(4, "little") for value in values)
        # More handles than fit the scratch memory get their own: a form may have many files.
        fits = len(words) <= _LENGTH
        address = self._scratch if fits else self._allocated(words)
        if fits:
            self.instance.write(address, words)
        result = self._call("qjs_call", function, self._undefined, len(values), address)
        if not fits:
            self._quick("wasm_free", address)
        if self._quick("qjs_is_exception", result):
            raise self._thrown()
        return result

    def _thrown(self) -> Exception:
        """Return the pending exception of QuickJS, which no script can have caught."""
        error = self._quick("qjs_get_exception")
        message = self._text_of(self._property(error, b"message"))
        if "out of memory" in message:
            return OutOfMemory()
        return ScriptError(f"the script cannot continue: {message}")

    def _property(self, value: int, name: bytes) -> int:
        return self._quick("qjs_get_prop_string", value, self._allocated(name + b"\0"))

    def _allocated(self, content: bytes) -> int:
        address = self._quick("wasm_malloc", len(content) or 1)
        if not address:
            raise OutOfMemory
        self.instance.write(address, content)
        return address

    def _new_text(self, spelled: bytes) -> int:
        return self._new("qjs_new_string", spelled)

    def _new_bytes(self, content: bytes) -> int:
        return self._new("qjs_new_uint8_array", content)

    def _new(self, function: str, content: bytes) -> int:
        if len(content) <= _SCRATCH - _WORDS:
            address = self._scratch + _WORDS
            self.instance.write(address, content)
            value = self._quick(function, address, len(content))
        else:
            address = self._allocated(content)
            value = self._quick(function, address, len(content))
            self._quick("wasm_free", address)
        if self._quick("qjs_is_exception", value):
            raise self._thrown()
        return value

    def _bytes_of_text(self, value: int) -> bytes:
        """Return a string in UTF-8. A lone surrogate becomes three bytes that are not UTF-8."""
        if not self._quick("qjs_is_string", value):
            raise ScriptError("the script sent a value that is not a string")
        return self._encoded(value)

    def _encoded(self, value: int) -> bytes:
        length = self._scratch + _LENGTH
        address = self._quick("qjs_get_string_len", value, length)
        if not address:
            raise OutOfMemory
        content = self.instance.read(address, self.instance.read_word(length))
        self._quick("qjs_free_cstring", address)
        return content

    def _text_of(self, value: int) -> str:
        # QuickJS would call the `toString` of any other value: code of the script, inside a host
        # function.
        if not self._quick("qjs_is_string", value):
            return ""
        return self._encoded(value).decode("utf-8", "replace")

    def _buffer(self, value: int) -> bytes:
        length = self._scratch + _LENGTH
        address = self._quick("qjs_get_array_buffer", value, length)
        return self.instance.read(address, self.instance.read_word(length)) if address else b""

    # ---- calls of the machine to its host

    def answer_call(self, name: str, values: Sequence[int]) -> int:
        """Answer a call of one of the host functions; returns the handle of the result."""
        match name:
            case "post":
                attachments = [self._buffer(value) for value in values[1:]]
                self.world.receive(self._text_of(values[0]), attachments)
            case "answer":
                arguments = parse_json(self._text_of(values[1]))
                answer = self.world.answer(self._text_of(values[0]), arguments)
                return self._new_text(answer.encode())
            case "encodeUtf8":
                return self._new_bytes(self._bytes_of_text(values[0]))
            case "decodeUtf8":
                return self._decoded(
                    self._buffer(values[0]), is_fatal=self._text_of(values[1]) == "fatal"
                )
            case "digest":
                hashed = digest(self._text_of(values[1]), self._buffer(values[0]))
                return self._new_bytes(hashed)
            case _:
                return self._new_bytes(self.world.draw(self._number(values[0])))
        return self._quick("qjs_get_undefined")

    def _decoded(self, content: bytes, *, is_fatal: bool) -> int:
        try:
            text = content.decode("utf-8", "strict" if is_fatal else "replace")
        except UnicodeDecodeError:
            return self._quick("qjs_get_null")
        return self._new_text(text.encode())

    def _number(self, value: int) -> int:
        return int(self._text_of(value))

    def name_module(self, importer: str, specifier: str) -> int:
        """Resolve a specifier. Only the imports that the script was checked with resolve."""
        # Our own code imports the entry module, once; a script cannot pass itself off as ours.
        if importer == GUEST and specifier == self._loading:
            self._loading = None
            return self._allocated(url_of(specifier).encode() + b"\0")
        module = self.world.modules.get(importer.removeprefix("tool:///"))
        target = module.imports.get(specifier) if module else None
        if target is None:
            return self._refuse_import(specifier)
        return self._allocated(url_of(target).encode() + b"\0")

    def load_module(self, name: str, length_at: int) -> int:
        """Return the address of the source of a module, and write its length."""
        source = self._source(name).encode("utf-8", "surrogatepass")
        self.instance.write(length_at, len(source).to_bytes(4, "little"))
        return self._allocated(source + b"\0")

    def _source(self, name: str) -> str:
        if name == RUNTIME:
            return runtime_source()
        return source_of(self.world.modules[name.removeprefix("tool:///")])

    def _refuse_import(self, specifier: str) -> int:
        error = self._quick("qjs_new_error")
        message = self._new_text(f"import of {specifier!r} is not allowed".encode())
        name = self._allocated(b"message\0")
        self._quick("qjs_set_prop_string", error, name, message)
        self._quick("qjs_throw", error)
        return 0

    def note_rejection(self, promise: int, reason: int, *, is_handled: bool) -> None:
        """Record a rejection until a handler is attached.

        QuickJS reports a rejection before a handler can be attached, and again when one is.
        """
        address = self._quick("qjs_get_value_ptr", promise)
        if not is_handled and len(self.unhandled) < _MAX_REJECTIONS:
            # Keep a reference to the promise: otherwise a new one could reuse its address.
            self.unhandled[address] = (promise, reason)
            return
        handles = (promise, reason, *(self.unhandled.pop(address, ()) if is_handled else ()))
        for handle in handles:
            self._quick("qjs_free_value", handle)


def boot(engine: Engine) -> MachineImage:
    """Return the image of a machine in which the guest sources are evaluated.

    It must hold nothing random: every call of every script would share it.
    """
    machine = Machine(engine, None, _MEMORY, 0)
    image = machine.image(engine)
    machine.close()
    return image


def _differences(content: bytes, blank: bytes) -> list[tuple[int, bytes]]:
    """Return the pages that differ, in runs. Untouched pages cost neither time nor memory."""
    runs: list[tuple[int, bytes]] = []
    start: int | None = None
    for address in range(0, len(content) + _PAGE, _PAGE):
        same = content[address : address + _PAGE] == (
            blank[address : address + _PAGE] or bytes(_PAGE)
        )
        if same or address >= len(content):
            if start is not None:
                runs.append((start, content[start:address]))
            start = None
        elif start is None:
            start = address
    return runs
