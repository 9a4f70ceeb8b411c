"""A program that runs a loop of calls on a thinking model, and a way to run and kill it."""

import asyncio
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
import penstock
from penstock import Agent, ModelSettings, tool
from penstock.core.limits import Limits
from penstock.models.providers import ModelConfig
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.responses import ResponsesModel
from penstock.store.projections import Page

@tool(effect="read")
def look(n: int) -> str:
    "Look."
    return f"seen {n}"

async def main(folder, url, wire, name):
    config = ModelConfig(name="model", provider=wire, model=name, base_url=url, api_key="sk")
    model = {"anthropic": AnthropicModel, "openai-responses": ResponsesModel}[wire](
        config, Limits()
    )
    agent = Agent(
        "clerk", model=model, tools=[look], model_settings=ModelSettings(thinking="low")
    )
    limits = {"lease_seconds": 0.5, "sweep_seconds": 0.05}
    async with penstock.open(folder, agents=[agent], settings={"limits": limits}) as runtime:
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page())
        if tasks:
            reply = await runtime.requests.wait(tasks[0].task_id)
        else:
            reply = await runtime.chat("Go", agent=agent)
        print(reply.content)

asyncio.run(main(*sys.argv[1:]))
"""


class KilledProgram:
    """Runs the program in a folder. `kill` ends it at once, as `kill -9` does."""

    def __init__(self, folder: Path, url: str, wire: str, name: str) -> None:
        folder.mkdir()
        self._arguments = (str(folder), url, wire, name)
        self._running: asyncio.subprocess.Process | None = None

    async def run(self) -> tuple[int, str]:
        """Run it to its end; return its exit code and what it printed."""
        process = self._running = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, *self._arguments, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode().strip()

    def kill(self) -> None:
        """Kill the process that runs."""
        assert self._running is not None
        self._running.kill()
