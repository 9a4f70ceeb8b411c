"""Runs a recipe of bench/recipes, of penstock or of a peer, against a provider on this machine."""

import json
import shutil
import signal
from asyncio.subprocess import Process, create_subprocess_exec
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bench import harness
from bench.recipes.count import RECIPES
from tests.kit.fakes.chat import FakeChat
from tests.kit.fakes.provider import Asked, Fault, Reply, Said, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.sample_files import image

ARGUMENTS = {"order": 7, "title": "fire", "severity": "high"}
TOOLS = {"final_answer", "final_result", "refund", "research", "researcher", "status"}
SETTINGS = """[models."openai:gpt-5"]
provider = "openai"
model = "gpt-5"
base_url = "%s/v1"
api_key_env = "OPENAI_API_KEY"
images = true
"""
ENVIRONMENT = {"OPENAI_API_KEY": "sk-fake", "OPENAI_AGENTS_DISABLE_TRACING": "1", "COLUMNS": "100"}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of a recipe."""

    status: int
    output: str
    requests: list[dict[str, Any]]


class LenientResponses(FakeResponses):
    """The Responses API for clients that do not stream and let OpenAI store what they send."""

    def check(self, body: dict[str, Any], head: str) -> None:
        said = body["input"]
        items = [{"role": "user", "content": said}] if isinstance(said, str) else said
        super().check({**body, "stream": True, "store": False, "input": items}, head)


async def run_recipe(framework: str, name: str, folder: Path) -> Ran:
    """Run a recipe in a folder as a reader does who has a key. Every question is answered `y`."""
    program = folder / f"{name}.py"
    shutil.copy(RECIPES / framework / program.name, program)
    (folder / "photo.png").write_bytes(image())
    fake = FakeChat() if framework == "penstock" else LenientResponses()
    fake.script = lambda body: _answer(body, is_down=name == "fallback")
    async with fake.serving():
        (folder / "penstock.toml").write_text(SETTINGS % fake.url)
        ran = await anyio.run_process(
            [*_python(framework, name), *_arguments(program)],
            input=b"y\n",
            cwd=folder,
            check=False,
            env=harness.environment(**ENVIRONMENT, OPENAI_BASE_URL=f"{fake.url}/v1"),
        )
    output = (ran.stdout + ran.stderr).decode() + "".join(fake.refusals)
    return Ran(status=ran.returncode, output=output, requests=fake.requests)


async def payments_after_kill(framework: str, folder: Path) -> int:
    """Run `killed.py` twice and count the payments.

    The first process dies when the model has read that the order is paid. The model calls the tool
    once for each message of a person.
    """
    program = folder / "killed.py"
    shutil.copy(RECIPES / framework / program.name, program)
    fake = FakeChat() if framework == "penstock" else LenientResponses()
    processes: list[Process] = []

    def answer(body: dict[str, Any]) -> Reply:
        if not _has_results(body):
            return replying(Asked("pay", {"order": 7}))
        if len(processes) == 1:
            processes[0].kill()
        return replying(Said("Done."))

    fake.script = answer
    async with fake.serving():
        (folder / "penstock.toml").write_text(SETTINGS % fake.url)
        environment = harness.environment(**ENVIRONMENT, OPENAI_BASE_URL=f"{fake.url}/v1")
        for expected in (-signal.SIGKILL, 0):
            command = [*_python(framework, program.stem), program.name]
            process = await create_subprocess_exec(*command, cwd=folder, env=environment)
            processes.append(process)
            assert await process.wait() == expected
    return len((folder / "paid.txt").read_text().splitlines())


def _python(framework: str, name: str) -> list[str]:
    if framework == "penstock":
        return [harness.interpreter(framework), "-W", "error"]
    is_eval = (framework, name) == ("pydantic_ai", "eval")
    return [harness.interpreter("recipes-eval" if is_eval else "recipes")]


def _arguments(program: Path) -> list[str]:
    is_test = program.stem.startswith("test_")
    return (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", program.name]
        if is_test
        else [program.name]
    )


def _answer(body: dict[str, Any], *, is_down: bool) -> Reply | Fault:
    """Call the tool of the recipe once, then end; with `is_down` the first model fails."""
    if is_down and body["model"] == "gpt-5":
        return Fault(503)
    offered = [each.get("function", each) for each in body.get("tools") or ()]
    tool = next((each for each in offered if each["name"] in TOOLS), None)
    if tool and not _has_results(body):
        return replying(Asked(tool["name"], _example(tool["parameters"])))
    if schema := _schema(body):
        return replying(Said(json.dumps(_example(schema))))
    return replying(Said("Done."))


def _has_results(body: dict[str, Any]) -> bool:
    """Whether a tool has returned since the last message of a person."""
    items = body.get("messages") or body["input"]
    kinds = ["user"] if isinstance(items, str) else [_kind(each) for each in items]
    after = kinds[len(kinds) - kinds[::-1].index("user") :]
    return bool({"tool", "function_call_output"} & {*after})


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("role") or item["type"])


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the answer, in either API."""
    chat = (body.get("response_format") or {}).get("json_schema") or {}
    responses = (body.get("text") or {}).get("format") or {}
    found: dict[str, Any] = chat.get("schema") or responses.get("schema") or {}
    return found


def _example(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: ARGUMENTS.get(name, "tides") for name in schema["properties"]}
