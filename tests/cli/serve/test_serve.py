"""`penstock serve`: starting, and the printed banner."""

import json
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.cli.project import find, run_with_runtime
from penstock.cli.serve.serve import GREETING, TRY, banner, first_words
from penstock.core.call import Effect
from tests.kit.manifests import tool
from tests.kit.tools import Act

Run = Callable[..., tuple[int, str, str]]


def test_a_port_in_use_is_reported_with_a_next_step(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = run("serve", "--port", port)
    assert code == 1
    assert err.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert "Choose another with --host, --port." in err


def test_binding_a_public_address_needs_a_key(run: Run) -> None:
    """Spec: "Any other bind address refuses to start without a key and says how to make one"."""
    code, _, err = run("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert code == 1
    assert "penstock keys create NAME" in err


def test_a_strict_server_does_not_start_with_errors(run: Run, project: Path) -> None:
    """`penstock serve --strict` makes any error fatal at start."""
    (project / "tools" / "a.tool.yaml").write_text("name: a\n")
    code, _, err = run("serve", "--strict", "--port", "0")
    assert code == 1
    assert err.startswith("Error: tools/a.tool.yaml:1:1: error missing-key")


ADDRESSES = [
    (("127.0.0.1", 8000), False, "curl -N http://127.0.0.1:8000/api/agents/assistant/chat -H 'con"),
    (("::1", 8000), False, "curl -N http://[::1]:8000/api/agents/assistant/chat -H 'content-type"),
    (("10.0.0.1", 80), True, '/chat -H "authorization: Bearer $KEY" -H \'content-type: applicati'),
]


@pytest.mark.parametrize(("address", "needs_key", "message"), ADDRESSES)
def test_the_banner_has_a_page_to_open_and_a_line_to_paste(
    project: Path, address: tuple[str, int], needs_key: bool, message: str
) -> None:
    async def work(runtime: Runtime) -> str:
        return banner(find(project), runtime, address, needs_key=needs_key)

    text = run_with_runtime(project, work)
    assert message in text
    host, port = address
    assert f"  Open http://{f'[{host}]' if ':' in host else host}:{port}/ in a browser" in text
    assert "agents: assistant; model: offline" in text
    assert "tools/*.py run in this process, with all its rights" in text


def test_the_line_to_paste_makes_the_assistant_call_a_tool(project: Path) -> None:
    """Order: "`make run` and the printed `curl` give a streamed tool call and answer"."""

    async def work(runtime: Runtime) -> str:
        result = banner(find(project), runtime, ("127.0.0.1", 1), needs_key=False)
        (line,) = [each for each in result.splitlines() if "curl" in each]
        loads = json.loads(shlex.split(line)[-1])
        assert loads == {"content": "hello name=Ann", "stream": True}
        return (await runtime.chat(loads["content"])).content

    assert "`hello` returned:\n- greeting: Hello, Ann!" in run_with_runtime(project, work)


def own(name: str, effect: Effect = Effect.READ, /, **properties: Any) -> Act:
    """Return a tool that requires these members."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Act(name, kind="python", effect=effect, input_schema=schema)


HELPER = Act("helper")
TEXT = {"type": "string"}
WORDS = [
    ([HELPER, own("moon")], TRY),
    ([HELPER, own("greet", name=TEXT)], "greet name=Ann"),
    ([own("greet", name=TEXT | {"examples": ["it's O'Hara"]})], "greet name=\"it's O'Hara\""),
    ([own("size", of={"enum": ["small", "big"]}, n={"type": "integer"})], "size of=small n=1"),
    ([own("pay", Effect.WRITE, to=TEXT), own("greet", name=TEXT)], "greet name=Ann"),
    ([own("deep", of={"type": "object"}), own("odd", of=True), HELPER], TRY),
    ([own("many", n={"type": "integer", "minimum": 5}), HELPER], TRY),
    ([own("pay", Effect.WRITE, to=TEXT)], GREETING),
    ([], GREETING),
]


@pytest.mark.parametrize(("tools", "words"), WORDS)
def test_the_suggested_message_makes_the_model_call_a_tool(tools: list[Act], words: str) -> None:
    assert first_words(tools) == words


def test_without_python_tools_the_banner_does_not_warn_of_their_rights(project: Path) -> None:
    (project / "tools/hello.py").unlink()
    (project / "tools/a.tool.yaml").write_text(tool())

    async def work(runtime: Runtime) -> str:
        return banner(find(project), runtime, ("127.0.0.1", 8000), needs_key=False)

    assert "with all its rights" not in run_with_runtime(project, work)
