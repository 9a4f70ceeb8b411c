"""The globals of the web that a machine provides without the network."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.wasm.quickjs import QuickJs
from penstock.testing.bridge import BEGINS_MS, FakeBridge
from tests.kit.scripts import value_of


@pytest.fixture(scope="module")
def sandbox(machine_code: Path) -> Iterator[QuickJs]:
    result = QuickJs(SystemClock(), machine_code)
    result.warm()
    yield result
    asyncio.run(result.close())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # text and bytes
        (
            "[...new TextEncoder().encode('aä€😀')]",
            [97, 195, 164, 226, 130, 172, 240, 159, 152, 128],
        ),
        ("new TextDecoder().decode(Uint8Array.of(0xEF, 0xBB, 0xBF, 97, 0xFF))", "a\ufffd"),
        ("[...new TextEncoder().encode('\\ud800')]", [239, 191, 189]),
        (
            (
                "(() => { try { new TextDecoder('utf-8', { fatal: true }).decode("
                "Uint8Array.of(0xFF)) } catch (e) { return e.name } })()"
            ),
            "TypeError",
        ),
        ("new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(97, 98))", "ab"),
        ("crypto.getRandomValues(new Uint8Array(7)).length", 7),
        ("[btoa('abc'), atob('YWJj')]", ["YWJj", "abc"]),
        # clones
        (
            "structuredClone({ a: [1, new Date(0)], m: [...new Map([[1, 2]])] })",
            {"a": [1, "1970-01-01T00:00:00.000Z"], "m": [[1, 2]]},
        ),
        (
            (
                "(() => { const a = {}; a.a = a; const b = structuredClone(a); return b.a === "
                "b && b !== a; })()"
            ),
            True,
        ),
        (
            """(() => { const a = structuredClone(JSON.parse('{"__proto__": {"x": 1}}'));
            return [Object.keys(a), a.x === undefined]; })()""",
            [["__proto__"], True],
        ),
        (
            "(() => { try { structuredClone(() => 1); } catch (e) { return e.name; } })()",
            "DataCloneError",
        ),
        # randomness and digests
        (
            (
                "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(c"
                "rypto.randomUUID())"
            ),
            True,
        ),
        ("crypto.getRandomValues(new Uint16Array(4)).length", 4),
        (
            (
                "new Uint8Array(await crypto.subtle.digest('SHA-256', new "
                "TextEncoder().encode('abc'))).toHex()"
            ),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "await crypto.subtle.digest('MD5', new Uint8Array()).catch((e) => e.name)",
            "NotSupportedError",
        ),
        # blobs and forms
        (
            (
                "await new Blob(['a', new Uint8Array([98]), new Blob(['c'])], { type: "
                "'Text/Plain' }).text()"
            ),
            "abc",
        ),
        (
            (
                "(() => { const f = new File(['x'], 'a.txt', { type: 't/p' }); return [f.name, "
                "f.size, f.type, f instanceof Blob]; })()"
            ),
            ["a.txt", 1, "t/p", True],
        ),
        (
            (
                "(() => { const f = new FormData(); f.append('a', 1); f.append('a', 2); "
                "f.set('b', 'c'); return [...f]; })()"
            ),
            [["a", "1"], ["a", "2"], ["b", "c"]],
        ),
        # aborting
        (
            (
                "(() => { const c = new AbortController(); let told = 0; "
                "c.signal.addEventListener('abort', () => told++); c.abort(); c.abort(); "
                "return [told, c.signal.reason.name]; })()"
            ),
            [1, "AbortError"],
        ),
        (
            (
                "await new Promise((r) => { const s = AbortSignal.timeout(5); s.onabort = () "
                "=> r(s.reason.name); })"
            ),
            "TimeoutError",
        ),
        ("AbortSignal.any([AbortSignal.abort('x'), new AbortController().signal]).reason", "x"),
        # timers
        (
            (
                "await new Promise((r) => { const seen = []; setTimeout(() => r(seen), 30); "
                "setTimeout((a) => seen.push(a), 20, 2); setTimeout(() => seen.push(1), 10); })"
            ),
            [1, 2],
        ),
        (
            (
                "await new Promise((r) => { let n = 0; const t = setInterval(() => { if (++n "
                "=== 3) { clearInterval(t); r(n); } }, 5); })"
            ),
            3,
        ),
        (
            (
                "await new Promise((r) => { clearTimeout(setTimeout(() => r('no'), 1)); "
                "setTimeout(() => r('yes'), 2); })"
            ),
            "yes",
        ),
        ("[typeof performance.now(), new Date().getTimezoneOffset()]", ["number", 0]),
        ("Date.now()", BEGINS_MS),
        ("typeof Intl", "undefined"),
    ],
)
async def test_globals_behave_as_on_the_web(sandbox: QuickJs, expression: str, value: Any) -> None:
    assert await value_of(sandbox, expression) == value


@pytest.mark.parametrize(
    ("input", "base", "href"),
    [
        ("https://EXAMPLE.com:443/a/./b/../c?x=1#y", None, "https://example.com/a/c?x=1#y"),
        ("../x?y", "https://ex.com/a/b/c#d", "https://ex.com/a/x?y"),
        ("//other.com/p", "https://ex.com/", "https://other.com/p"),
        ("?q", "https://ex.com/a", "https://ex.com/a?q"),
        ("#f", "https://ex.com/a?b", "https://ex.com/a?b#f"),
        (
            "https://user:p%40ss@ex.com:8080/ü?ä=ö",
            None,
            "https://user:p%40ss@ex.com:8080/%C3%BC?%C3%A4=%C3%B6",
        ),
        ("https://bücher.example/", None, "https://xn--bcher-kva.example/"),
        ("http://0x7f.1/", None, "http://127.0.0.1/"),
        ("http://2130706433/", None, "http://127.0.0.1/"),
        ("http://[::FFFF:1.2.3.4]:80/", None, "http://[::ffff:102:304]/"),
        ("http:\\\\ex.com\\a", None, "http://ex.com/a"),
        ("  https://ex.com/\n", None, "https://ex.com/"),
        ("https://%65x.com/", None, "https://ex.com/"),
        ("mailto:a@b.c", None, "mailto:a@b.c"),
        ("data:text/plain,a b", None, "data:text/plain,a b"),
        ("file:///C|/x/../y", None, "file:///C:/y"),
        ("/C:x", "file:///C:/d/e", "file:///C:/C:x"),
        ("/C:/x", "file:///D:/d/e", "file:///C:/x"),
        ('http://a"b/', None, 'http://a"b/'),
        ("https://", None, None),
        ("https://ex.com:99999/", None, None),
        ("https://a b/", None, None),
        ("https://1.2.3.256/", None, None),
        ("https://[::1", None, None),
        ("/only/a/path", None, None),
    ],
)
async def test_urls_are_parsed_as_in_the_standard(
    sandbox: QuickJs, input: str, base: str | None, href: str | None
) -> None:
    passed = json.dumps(input) + ("" if base is None else f", {json.dumps(base)}")
    assert await value_of(sandbox, f"URL.parse({passed})?.href ?? null") == href


async def test_a_url_and_its_parameters_stay_in_sync(sandbox: QuickJs) -> None:
    result = await value_of(
        sandbox,
        """(() => {
          const url = new URL("https://ex.com/?a=1&b=x+y%26");
          url.searchParams.append("c", "ä &=");
          url.searchParams.delete("a");
          const first = url.href;
          url.search = "?z=1";
          url.port = "81"; url.pathname = "/p q"; url.hash = "h"; url.host = "o.com:82";
          return [first, url.searchParams.get("z"), url.href, url.origin];
        })()""",
    )
    assert result == [
        "https://ex.com/?b=x+y%26&c=%C3%A4+%26%3D",
        "1",
        "https://o.com:82/p%20q?z=1#h",
        "https://o.com:82",
    ]


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("console.log('a', 1, null, undefined, true)", ("info", "a 1 null undefined true")),
        (
            "console.warn({ a: [1, 'x'], f() {}, get g() { return 1; } })",
            ("warning", '{ a: [ 1, "x" ], f: [Function: f], g: [Getter] }'),
        ),
        ("console.error(new TypeError('no'))", ("error", "TypeError: no")),
        ("console.info('%s is %d%%', 'it', '7', 'more')", ("info", "it is 7% more")),
        (
            "console.debug(new Map([[1, { a: 1n }]]), new Set(['x']))",
            ("info", 'Map(1) { 1 => { a: 1n } } Set(1) { "x" }'),
        ),
        (
            "(() => { const a = { b: {} }; a.b.a = a; console.log(a); })()",
            ("info", "{ b: { a: [Circular] } }"),
        ),
        ("console.log('x'.repeat(9000))", ("info", "x" * 8189 + "…")),
    ],
)
async def test_the_console_shows_values(
    sandbox: QuickJs, expression: str, line: tuple[str, str]
) -> None:
    bridge = FakeBridge()
    await value_of(sandbox, expression, bridge)
    [(level, text)] = bridge.printed
    assert (level, text.split("\n")[0]) == line


async def test_a_body_may_be_longer_than_arguments(sandbox: QuickJs) -> None:
    bridge = FakeBridge(
        {"fetch": lambda _: {"status": 200, "url": "u", "headers": {}, "body": b""}}
    )
    sent = """fetch("https://a.test/", { method: "POST", body: "é".repeat(70_000) })"""
    assert await value_of(sandbox, f"{sent}.then((answer) => answer.status)", bridge) == 200
    ((_, asked),) = bridge.asked
    assert asked["body"] == {"kind": "text", "attachment": 0}
    assert asked["attachments"] == ["é".encode() * 70_000]
    assert ["content-type", "text/plain;charset=UTF-8"] in asked["headers"]


async def test_a_synchronous_call_passes_its_name_and_arguments(
    sandbox: QuickJs,
) -> None:
    bridge = FakeBridge({"time.formatUnixTimestamp": lambda given: given["format"]})
    expression = "flo.time.formatUnixTimestamp(1, 'YYYY')"
    assert await value_of(sandbox, expression, bridge) == "YYYY"
