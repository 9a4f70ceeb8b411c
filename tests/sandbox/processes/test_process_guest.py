"""A guest in a process: whatever the process sends, the entry ends like that of any script."""

from pathlib import Path

import pytest

from penstock.core.call_errors import CallError, OutOfMemory, ScriptError, ToolTimeout
from penstock.core.clock import SystemClock
from penstock.sandbox.processes.process_sandbox import ProcessSandbox
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import FakeBridge
from tests.kit.engines import engine
from tests.kit.scripts import script_of

SCRIPT = script_of("export const run = () => 1;")
IDLE = "say(b'idle', b'1 0');"


async def ending(program: str, folder: Path) -> object:
    sandbox = ProcessSandbox(
        "none", SystemClock(), lambda _: engine(program, folder), lambda _: None
    )
    try:
        return await sandbox.run(SCRIPT, {}, FakeBridge(), Bounds(seconds=0.8, memory_mb=8))
    except CallError as error:
        return f"{error.code}: {error}"
    finally:
        await sandbox.close()


WAIT = "\nwhile os.read(0, 65536): pass"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (f"say(b'post', b'done\\n0\\n[1]'); {IDLE}{WAIT}", "[1]"),
        ("", "SCRIPT_ERROR: the script broke its sandbox and was ended: its process ended with 0"),
        ("import sys; sys.stderr.write('heap out of memory'); sys.exit(133)", OutOfMemory.code),
        ("os.kill(os.getpid(), 9)", OutOfMemory.code),
        (f"say(b'odd');{WAIT}", "SCRIPT_ERROR: the script broke its sandbox and was ended: 'odd'"),
        (f"say(b'post');{WAIT}", "is not a frame of an engine"),
        (f"os.write(1, b'\\0' * 4);{WAIT}", "a frame has 1 to"),
        (f"os.write(1, b'\\1\\0\\0\\0\\0\\0\\0\\xff');{WAIT}", "a frame has at most"),
        (f"say(b'idle', b'x');{WAIT}", ScriptError.code),
        (f"say(b'digest', b'md5', b'');{WAIT}", "is not a hash function"),
        (f"say(b'answer', b'time\\nNaN[');{WAIT}", ScriptError.code),
        (f"say(b'post', b'done\\n0\\n[');{WAIT}", "the output cannot be read as JSON"),
        (f"say(b'post', b'fail\\n0\\n5'); {IDLE}{WAIT}", "cannot be read"),
        (f"say(b'post', b'rejected\\n0\\nx'); {IDLE}{WAIT}", "nothing will settle"),
        (f"say(b'post', b'odd\\n0\\nx'); {IDLE}{WAIT}", "a malformed message"),
        (f"say(b'post', b'ask\\n1\\ntimer\\n5'); {IDLE}{WAIT}", "are not an object"),
        (f"say(b'post', b'ask\\n1'); {IDLE}{WAIT}", "a malformed message"),
        (f"say(b'digest', b'md5', b'', b'');{WAIT}", "is not a frame of an engine"),
        (f"say(b'broken', b'memory', b'');{WAIT}", OutOfMemory.code),
        (f"say(b'broken', b'script', b'why');{WAIT}", "SCRIPT_ERROR: why"),
        (WAIT, ToolTimeout.code),
        ("while True: say(b'random', b'1')", ToolTimeout.code),
    ],
)
async def test_a_process_that_is_not_an_engine_fails_the_script(
    tmp_path: Path, program: str, expected: str
) -> None:
    """Nothing that the process sends is trusted."""
    assert expected in str(await ending(program, tmp_path))
