"""QuickJS in wasm: a machine that runs modules and their jobs, begun from an image of itself."""

from collections.abc import Sequence

from msgspec import Struct

from penstock.core.call_errors import OutOfMemory, ScriptError
from penstock.core.json_values.json_text import parse_json
from penstock.sandbox.machine_world import NOWHERE, MachineWorld, digest
from penstock.sandbox.script import RUNTIME
from penstock.sandbox.sources import (
    GUEST,
    HOST_FUNCTIONS,
    guest_source,
    runtime_source,
    source_of,
    url_of,
)
from penstock.sandbox.wasm.binding import Engine, Instance

_SCRATCH = 65_536
"""Bytes of guest memory for what is handed over."""
_WORDS = 64
"""Bytes at its beginning for pointers, and for one length."""
_LENGTH = 60
_RESERVE = 2 << 20
"""What the machine may use beyond the script's limit, so that the script's error can be thrown."""
_PAGE = 4096
_MEMORY = 64 << 20
_FAILED = 0x8000_0000
_MOST_REJECTIONS = 100


class MachineImage(Struct, frozen=True, kw_only=True):
    """A machine that has just been set up: what its memory holds beyond that of a new instance."""

    pieces: Sequence[tuple[int, bytes]]
    size: int
    stack_pointer: int
    pointers: tuple[int, int]
    """Of the runtime and of the context."""
    scratch: int
    undefined: int
    authenticator: int


class Machine:
    """One world of scripts. After an error it is only to be closed."""

    def __init__(self, engine: Engine, image: MachineImage | None, memory: int, stack: int) -> None:
        self.world = NOWHERE
        self.unhandled: dict[int, tuple[int, int]] = {}
        """Promises that were rejected, by place; with their handle and the handle of the reason."""
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
        """Say where it is, and which module its script begins with."""
        self.world = world
        self._loading = entry

    def send(self, text: str, attachments: Sequence[bytes] = ()) -> None:
        """Hand something to the script, and do all jobs that follow."""
        values = [self._new_text(text.encode("utf-8", "surrogatepass"))]
        values += [self._new_bytes(each) for each in attachments]
        self._tell(values)
        for value in values:
            self._quick("qjs_free_value", value)
        while not self.world.is_over and (done := self._call("qjs_execute_pending_job")):
            if done & _FAILED:
                raise self._thrown()

    def tell_rejections(self) -> None:
        """Have the script tell of every rejection that nobody took."""
        rejected, self.unhandled, self.world.is_over = self.unhandled, {}, False
        for _promise, reason in rejected.values():
            text = self._new_text(b"rejected\n0\n")
            self._tell([text, reason])

    def image(self, engine: Engine) -> MachineImage:
        """Return what a new machine can begin from."""
        fresh = Instance(engine, self, _MEMORY)
        instance = self.instance
        found = instance.read(0, instance.size)
        blank = fresh.read(0, fresh.size)
        fresh.close()
        return MachineImage(
            pieces=_differences(found, blank),
            size=len(found),
            stack_pointer=instance.stack_pointer,
            pointers=(self._quick("qjs_get_runtime_ptr"), self._quick("qjs_get_context_ptr")),
            scratch=self._scratch,
            undefined=self._undefined,
            authenticator=self._entrance,
        )

    def close(self) -> None:
        """Free everything."""
        self.instance.close()

    # ---- beginning

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
        self._entrance = self._applied(make, functions)

    def _restore(self, image: MachineImage) -> None:
        self.instance.grow_to(image.size)
        for at, piece in image.pieces:
            self.instance.write(at, piece)
        self.instance.stack_pointer = image.stack_pointer
        self._quick("qjs_set_runtime_and_context", *image.pointers)
        self._scratch, self._undefined = image.scratch, image.undefined
        self._entrance = image.authenticator

    def _evaluated(self, source: bytes) -> int:
        code, name = self._allocated(source + b"\0"), self._allocated(GUEST.encode() + b"\0")
        found = self._call("qjs_eval", code, len(source), name, 0)
        if self._quick("qjs_is_exception", found):
            raise self._thrown()
        return found

    def _host_function(self, name: str) -> int:
        spelled = self._allocated(name.encode())
        return self._quick("qjs_new_host_function", spelled, len(name), 2)

    # ---- calls and values

    def _tell(self, values: Sequence[int]) -> None:
        self._quick("qjs_free_value", self._applied(self._entrance, values))

    def _applied(self, function: int, values: Sequence[int]) -> int:
        words = b"".join(value.to_bytes(4, "little") for value in values)
        # Beyond what fits the scratch there is memory of its own: a form may have many files.
        fits = len(words) <= _LENGTH
        at = self._scratch if fits else self._allocated(words)
        if fits:
            self.instance.write(at, words)
        found = self._call("qjs_call", function, self._undefined, len(values), at)
        if not fits:
            self._quick("wasm_free", at)
        if self._quick("qjs_is_exception", found):
            raise self._thrown()
        return found

    def _thrown(self) -> Exception:
        """Return what went wrong where no script can have caught it."""
        error = self._quick("qjs_get_exception")
        said = self._text_of(self._property(error, b"message"))
        if "out of memory" in said:
            return OutOfMemory()
        return ScriptError(f"the script could not go on: {said}")

    def _property(self, value: int, name: bytes) -> int:
        return self._quick("qjs_get_prop_string", value, self._allocated(name + b"\0"))

    def _allocated(self, content: bytes) -> int:
        at = self._quick("wasm_malloc", len(content) or 1)
        if not at:
            raise OutOfMemory
        self.instance.write(at, content)
        return at

    def _new_text(self, spelled: bytes) -> int:
        return self._new("qjs_new_string", spelled)

    def _new_bytes(self, content: bytes) -> int:
        return self._new("qjs_new_uint8_array", content)

    def _new(self, function: str, content: bytes) -> int:
        if len(content) <= _SCRATCH - _WORDS:
            at = self._scratch + _WORDS
            self.instance.write(at, content)
            found = self._quick(function, at, len(content))
        else:
            at = self._allocated(content)
            found = self._quick(function, at, len(content))
            self._quick("wasm_free", at)
        if self._quick("qjs_is_exception", found):
            raise self._thrown()
        return found

    def _bytes_of_text(self, value: int) -> bytes:
        """Return a string in UTF-8; a half of a pair comes as three bytes that are not UTF-8."""
        if not self._quick("qjs_is_string", value):
            raise ScriptError("the script sent something that is no text")
        return self._spelled(value)

    def _spelled(self, value: int) -> bytes:
        length = self._scratch + _LENGTH
        at = self._quick("qjs_get_string_len", value, length)
        if not at:
            raise OutOfMemory
        found = self.instance.read(at, self.instance.read_word(length))
        self._quick("qjs_free_cstring", at)
        return found

    def _text_of(self, value: int) -> str:
        if not self._quick("qjs_is_string", value):
            return ""
        return self._spelled(value).decode("utf-8", "replace")

    def _buffer(self, value: int) -> bytes:
        length = self._scratch + _LENGTH
        at = self._quick("qjs_get_array_buffer", value, length)
        return self.instance.read(at, self.instance.read_word(length)) if at else b""

    # ---- what the machine asks of us

    def hear(self, name: str, values: Sequence[int]) -> int:
        """Answer a call of one of the host functions."""
        match name:
            case "post":
                attachments = [self._buffer(value) for value in values[1:]]
                self.world.hear(self._text_of(values[0]), attachments)
            case "answer":
                asked = parse_json(self._text_of(values[1]))
                answer = self.world.answer(self._text_of(values[0]), asked)
                return self._new_text(answer.encode())
            case "encodeUtf8":
                return self._new_bytes(self._bytes_of_text(values[0]))
            case "decodeUtf8":
                return self._decoded(
                    self._buffer(values[0]), is_fatal=self._text_of(values[1]) == "fatal"
                )
            case "digest":
                found = digest(self._text_of(values[1]), self._buffer(values[0]))
                return self._new_bytes(found)
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

    def name_module(self, above: str, specifier: str) -> int:
        """Answer which module a specifier means: only what the script was checked with."""
        if above == GUEST and specifier == self._loading:
            self._loading = None
            return self._allocated(url_of(specifier).encode() + b"\0")
        module = self.world.modules.get(above.removeprefix("tool:///"))
        found = module.imports.get(specifier) if module else None
        if found is None:
            return self._refuse_import(specifier)
        return self._allocated(url_of(found).encode() + b"\0")

    def load_module(self, name: str, length_at: int) -> int:
        """Answer the source of a module."""
        source = self._source(name).encode("utf-8", "surrogatepass")
        self.instance.write(length_at, len(source).to_bytes(4, "little"))
        return self._allocated(source + b"\0")

    def _source(self, name: str) -> str:
        if name == RUNTIME:
            return runtime_source()
        return source_of(self.world.modules[name.removeprefix("tool:///")])

    def _refuse_import(self, specifier: str) -> int:
        error = self._quick("qjs_new_error")
        said = self._new_text(f"import of {specifier!r} is not allowed".encode())
        name = self._allocated(b"message\0")
        self._quick("qjs_set_prop_string", error, name, said)
        self._quick("qjs_throw", error)
        return 0

    def note_rejection(self, promise: int, reason: int, *, is_handled: bool) -> None:
        """Keep what was rejected until it is known whether anybody takes it.

        QuickJS tells of a rejection before a handler can be attached, and again when one is.
        """
        place = self._quick("qjs_get_value_ptr", promise)
        if not is_handled and len(self.unhandled) < _MOST_REJECTIONS:
            # The promise is kept too: another one must not take its place in memory.
            self.unhandled[place] = (promise, reason)
            return
        handles = (promise, reason, *(self.unhandled.pop(place, ()) if is_handled else ()))
        for handle in handles:
            self._quick("qjs_free_value", handle)


def boot(engine: Engine) -> MachineImage:
    """Return the image of a machine in which our part of the world is set up.

    Nothing by chance may be in it: every call would share it.
    """
    machine = Machine(engine, None, _MEMORY, 0)
    image = machine.image(engine)
    machine.close()
    return image


def _differences(found: bytes, blank: bytes) -> list[tuple[int, bytes]]:
    """Return what differs, by runs of pages: to copy less is to begin sooner, and to use less."""
    runs: list[tuple[int, bytes]] = []
    begun: int | None = None
    for at in range(0, len(found) + _PAGE, _PAGE):
        same = found[at : at + _PAGE] == (blank[at : at + _PAGE] or bytes(_PAGE))
        if same or at >= len(found):
            if begun is not None:
                runs.append((begun, found[begun:at]))
            begun = None
        elif begun is None:
            begun = at
    return runs
