"""Tools that count how often they run, and a process that is killed."""

from penstock.core.envelope import Envelope
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import Workbench
from penstock.tools.python.function import tool


class Counted:
    """Tools that count how often they run."""

    def __init__(self) -> None:
        self.runs = 0

        @tool(effect="none", direct_call=True)
        async def look(n: int = 0) -> dict[str, int]:
            """Look at something."""
            self.runs += 1
            return {"n": n}

        @tool(effect="write", direct_call=True)
        async def post(n: int = 0) -> dict[str, int]:
            """Change something."""
            self.runs += 1
            return {"n": n}

        @tool(effect="write", direct_call=True, requires_approval=True)
        async def send(to: str) -> str:
            """Send something, if a person says yes."""
            self.runs += 1
            return to

        self.look, self.post, self.send = look, post, send


def code(envelope: Envelope) -> str:
    return "success" if envelope.error is None else envelope.error.code


async def killed(bench: Workbench) -> None:
    """Simulate a killed process: another one acquires the log after the lease has expired."""
    clock = bench.world.clock
    assert isinstance(clock, FakeClock)
    clock.advance(bench.world.limits.lease_seconds + 1)
    await bench.take_over()
