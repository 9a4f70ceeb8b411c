"""A secret that was given out is in nothing that is recorded or shown."""

import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.plain_form import PlainForm
from penstock.resources.redact import Redactor
from tests.kit.json_values import FEW

SECRET = 'pä"ss wörd/+&=\n'  # noqa: S105  what is to be taken out
AGAIN = "[secret:token]"


def given_out(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.add("token", secret)
    return redactor


FORMS = [
    SECRET,
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    quote(SECRET),
    quote(SECRET, safe=""),
    quote(SECRET, safe="").lower(),
    quote_plus(SECRET),
    SECRET.lower(),
    "p%C3%A4%22ss%20w%C3%B6rd/+&=%0A",
    "p%C3%A4%22ss%20w%C3%B6rd%2F%2B%26%3D%0A",
    "p%E4%22ss%20w%F6rd/+%26%3D%0A",
    "p%e4%22ss%20w%f6rd/+%26%3d%0a",
    "p%C3%A4%22ss%20w%C3%B6rd/+&=",
    "p%C3%A4%22ss%20w%C3%B6rd%2F+&%3D",
    base64.b64encode(SECRET.encode()).decode(),
    base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    base64.b64encode(SECRET.encode("latin-1")).decode(),  # `btoa(secret)` in a script
    base64.urlsafe_b64encode(SECRET.encode("latin-1")).decode().rstrip("="),
    SECRET.upper(),
    base64.b64encode(SECRET.encode("utf-16-le")).decode(),  # PowerShell
    SECRET.encode("utf-16-le").hex(),
    base64.b32encode(SECRET.encode()).decode(),
    'p=C3=A4"ss w=C3=B6rd/+&=3D',
]


@pytest.mark.parametrize("form", FORMS)
def test_every_spelling_of_a_secret_is_replaced(form: str) -> None:
    """V5: "Also its base64, base64url and percent-encoded forms"."""
    shown = given_out(SECRET).text(f"before {form} after")
    assert AGAIN in shown
    assert form.rstrip("=") not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "user"])
def test_a_secret_inside_encoded_text_is_replaced(user: str) -> None:
    for spelling in ("utf-8", "latin-1"):
        header = base64.b64encode(f"{user}:s3same-öpen:x".encode(spelling)).decode()
        assert AGAIN in given_out("s3same-öpen").text(f"Basic {header}")


@pytest.mark.parametrize("before", ["", "a", "ab"])
@pytest.mark.parametrize("user", ["", "a", "ab"])
def test_a_secret_that_was_encoded_twice_is_replaced(user: str, before: str) -> None:
    """As in the file of Docker's logins, or in a token that carries a header of its own."""
    login = base64.b64encode(f"{user}:s3same-open".encode()).decode()
    whole = base64.b64encode(json.dumps({before: {"auth": login}}).encode()).decode()
    assert AGAIN in given_out("s3same-open").text(f"config {whole}")


@given(st.text(min_size=4, max_size=12), st.text(max_size=5), st.text(max_size=5))
@FEW
def test_no_form_of_any_secret_is_left(secret: str, before: str, after: str) -> None:
    redactor = given_out(secret)
    for text in (f"{before}{secret}{after}", urlencode({"q": secret}), json.dumps([secret])):
        assert secret not in redactor.text(text).replace(AGAIN, "\x00")


SPELLED = [
    ("S3SamE/Open", "https://x/s3same/open"),
    ("Tok~(1)!*'", "Tok~(1)!*'"),
    ("Tok~(1)!*'", "q=Tok%7E%281%29%21*%27"),
    ("𝄞clef", "%uD834%uDD1Eclef"),
    ("𝄞clef", "%ud834%udd1eclef"),
    ("a{b}|c^d", "/a%7Bb%7D|c^d"),
    ("a{b}|c^d", "/a%7Bb%7D|c%5Ed"),
    ("a'b#c?d", "?a%27b%23c?d"),
    ("u:p@[h]", "//u%3Ap%40%5Bh%5D@"),
    ("back\\slash", "/back/slash"),
    ("two\nlines", "/twolines"),
    ("Straße-1", "http://strasse-1/"),
    ("Bücher", "http://xn--bcher-kva/"),
]


@pytest.mark.parametrize(("secret", "text"), SPELLED)
def test_addresses_spell_a_secret_in_ways_of_their_own(secret: str, text: str) -> None:
    """Of `encodeURI`, `escape`, `URL.href` and hosts, which have no capitals."""
    assert AGAIN in given_out(secret).text(text)


DEEP: list[tuple[Any, Any]] = [
    ({"a": ["x s3same", {"b": "s3same"}]}, {"a": [f"x {AGAIN}", {"b": AGAIN}]}),
    ({"s3same": 1, "n": None}, {AGAIN: 1, "n": None}),
    ("s3same", AGAIN),
    (5, 5),
]


@pytest.mark.parametrize(("value", "cleaned"), DEEP)
def test_json_is_cleaned_at_any_depth(value: Any, cleaned: Any) -> None:
    redactor = given_out("s3same")
    assert redactor.json(value) == cleaned
    assert redactor.holds_secret(value) == (value != cleaned)


def test_json_without_secrets_is_the_same_object() -> None:
    value: Any = {"a": [1.5, "b", {"c": None}]}
    assert Redactor().json(value) is value
    assert given_out("s3same").json(value) is value
    assert not Redactor().holds_secret("s3same")


def test_the_longest_of_several_secrets_is_named() -> None:
    redactor = Redactor()
    redactor.add("short", "s3same")
    redactor.add("long", "s3same-open")
    assert redactor.text("s3same-open s3same") == "[secret:long] [secret:short]"


def test_a_secret_that_is_too_short_is_left() -> None:
    assert given_out("abc").text("abc") == "abc"


def test_a_secret_shortened_by_an_address_is_not_searched() -> None:
    assert given_out("a\n\n\n").text("a banana") == "a banana"


LARGE = "".join(f"{number:04x}/+ " for number in range(9000))
"""63,000 characters: a secret may have 64 KiB."""


@pytest.mark.parametrize(
    "form", [LARGE, json.dumps(LARGE)[1:-1], quote(LARGE), quote_plus(LARGE)], ids=range(4)
)
def test_a_large_secret_is_recognized_and_redacted_completely(form: str) -> None:
    secrets = given_out(LARGE)
    secrets.add("short", LARGE[:40])
    text = f"{LARGE[:200]} {form} {LARGE[:-1]}"
    cleaned = secrets.text(text)
    assert cleaned.startswith(f"[secret:short]{LARGE[40:200]} [secret:token] [secret:short]")
    assert secrets.holds_secret([{"a": text}])


def test_a_part_of_a_large_secret_is_none() -> None:
    secrets = given_out(LARGE)
    assert secrets.text(LARGE[:-1]) == LARGE[:-1]
    assert not secrets.holds_secret(LARGE[:-1])


@pytest.mark.chaos
@pytest.mark.parametrize("text", [("a" * 65_535 + "b") * 16, ("a" * 200 + "b") * 5000])
def test_a_text_similar_to_a_large_secret_is_redacted_quickly(text: str) -> None:
    redactor = given_out("a" * 65_536)
    assert redactor.text(text) == text
    assert redactor.text(text + "a" * 65_537) == f"{text}{AGAIN}a"
    assert redactor.text(f"{text}…") == f"{text}…"
    assert not redactor.holds_secret([text])


def spelled_out(secret: str) -> str:
    return "".join(f"%{byte:02x}" for byte in secret.encode())


def in_units(secret: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in secret)


def wrapped(secret: str) -> str:
    return base64.encodebytes(f"{{{secret * 5}}}".encode()).decode()


KEY = "\n".join(["-----BEGIN KEY-----", *(f"{n:04}/+q" * 8 for n in range(9)), "-----END KEY-----"])
SECRETS = ["s3cr3t-value-77", 'quo"te\\back\nline', "Ärger & Söhne <1>", KEY]
SPELL: list[Callable[[str], str]] = [
    lambda each: each,
    json.dumps,
    lambda each: json.dumps(json.dumps({"a": each})),
    lambda each: json.dumps(json.dumps(json.dumps([each]), ensure_ascii=False)),
    spelled_out,
    lambda each: spelled_out(each).replace("%", "%25"),
    lambda each: quote(json.dumps({"a": each})),
    html.escape,
    lambda each: "".join(f"&#{ord(letter)};" for letter in each),
    lambda each: "".join(f"&#x{ord(letter):X};" for letter in each),
    lambda each: each.encode().hex(),
    lambda each: each.encode().hex().upper(),
    wrapped,
    lambda each: json.dumps(wrapped(each)),
    lambda each: wrapped(each).replace("+", "-").replace("/", "_").replace("=", ""),
    lambda each: base64.b64encode(json.dumps({"a": each}).encode()).decode(),
    repr,
    in_units,
    lambda each: json.dumps(in_units(each)),
    lambda each: json.dumps(json.dumps({"a": in_units(each)})),
]
PLACES: list[Callable[[str], Any]] = [
    lambda text: text,
    lambda text: f"say {text}, and more",
    lambda text: {"a": [{"b": text}]},
    lambda text: {text: None},
    lambda text: {"bytes": f"x{text}".encode()},
]


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
@pytest.mark.parametrize("spell", SPELL, ids=range(len(SPELL)))
def test_a_secret_is_found_in_every_spelling_at_every_place(
    secret: str, spell: Callable[[str], str]
) -> None:
    """The text around it stays, and decoding the result again does not restore it."""
    redactor = given_out(secret)
    for place in PLACES:
        value = place(spell(secret))
        assert redactor.holds_secret(value), value
        cleaned = redactor.json(value)
        assert AGAIN in str(cleaned), value
        assert not redactor.holds_secret(cleaned), value
        assert secret not in PlainForm(str(cleaned)).text
        if isinstance(value, str) and value.startswith("say"):
            assert cleaned.startswith("say ")
            assert cleaned.endswith(", and more")


@pytest.mark.parametrize("line", KEY.split("\n")[1:-1])
def test_a_key_is_found_line_by_line(line: str) -> None:
    assert given_out(KEY).json([line]) == [AGAIN]
    assert given_out(KEY).text(f"| {line} |") == f"| {AGAIN} |"
    assert given_out(KEY).text("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


TOKEN = "Zx9-" + "abcdefghijklmnopqrstuvwxyz0123456789" * 3
MESSAGES = [
    ("unexpected token: 'Zx9'", "unexpected token: '{}'"),
    ("at <anon>: unexpected token: 'abcdefghijkl' (1)", "at <anon>: unexpected token: '{}' (1)"),
    (
        "Unexpected token 'Z', \"Zx9-abcdef\"... is not valid JSON",
        "Unexpected token 'Z', \"{}\"... is not valid JSON",
    ),
    (
        "Unexpected token '9', ...\"yz012345678\"... is not valid JSON",
        "Unexpected token '9', ...\"{}\"... is not valid JSON",
    ),
    (
        "Unexpected token 'Z', \"  Zx9-abcde\"... is not valid JSON",
        "Unexpected token 'Z', \"  {}\"... is not valid JSON",
    ),
    (
        'Unexpected token \'Z\', "{"a": Zx9-abc"... is not valid JSON',
        'Unexpected token \'Z\', "{"a": {}"... is not valid JSON',
    ),
    (
        'Unexpected token \'Z\', ..."yy", "t": Zx9-abc"... is not valid JSON',
        'Unexpected token \'Z\', ..."yy", "t": {}"... is not valid JSON',
    ),
    (
        'Unexpected token \'}\', ..."456789}, "b": 1"... is not valid JSON',
        'Unexpected token \'}\', ..."{}}, "b": 1"... is not valid JSON',
    ),
    (
        json.dumps("Unexpected token 'Z', \"Zx9-abcdef\"... is not valid JSON"),
        json.dumps("Unexpected token 'Z', \"{}\"... is not valid JSON"),
    ),
    (f"cannot read property '{TOKEN[:63]}' of null", "cannot read property '{}' of null"),
    (f"wanted a number, found '{TOKEN[:79]}", "wanted a number, found '{}"),
    (f"input is not valid: {TOKEN[:8]}…", "input is not valid: {}…"),
    (f'{{"a": "<{TOKEN[:50]}…>"}}', '{"a": "<{}…>"}'),
    (f"{TOKEN[:7]}…", f"{TOKEN[:7]}…"),
    (f"{TOKEN[:20]}, and more…", f"{TOKEN[:20]}, and more…"),
    ("unexpected token: 'hello'", "unexpected token: 'hello'"),
    ("the word 'Zx9-abcdef' in a text", "the word 'Zx9-abcdef' in a text"),
]


@pytest.mark.parametrize(("message", "shown"), MESSAGES)
def test_a_part_of_a_secret_quoted_by_an_engine_is_found(message: str, shown: str) -> None:
    """QuickJS and V8 show the beginning of what they could not read, or of a name."""
    assert given_out(TOKEN).text(message) == shown.replace("{}", AGAIN, 1)


@pytest.mark.parametrize("coding", ["utf-8", "utf-16-le", "utf-16-be", "utf-16"])
def test_bytes_lose_a_secret_and_nothing_else(coding: str) -> None:
    content = b"\x00\xff" + f"<{TOKEN}>".encode(coding) + b"\xfe\x80"
    wanted = content.replace(TOKEN.encode(coding[:9]), AGAIN.encode(coding[:9]))
    if coding == "utf-16":
        wanted = content.replace(TOKEN.encode("utf-16-le"), AGAIN.encode("utf-16-le"))
    redactor = given_out(TOKEN)
    assert redactor.bytes(content) == redactor.json({"a": content})["a"] == wanted
    assert redactor.bytes(b"\x00\xff\xfe") == b"\x00\xff\xfe"
    assert Redactor().bytes(content) is content


def test_secrets_that_overlap_go_together() -> None:
    redactor = Redactor()
    redactor.add("one", "abcd")
    redactor.add("two", 'abcd"efgh')
    assert redactor.text('x abcd\\"efgh y') == "x [secret:two] y"


@pytest.mark.parametrize(
    "text",
    [
        "%25" * 100_000,
        "%" * 200_000,
        "\\" * 200_000,
        "\\" * 200_000 + "u00",
        "&" * 100_000 + "&amp;" * 20_000,
        "\n \r" * 100_000,
        "unexpected token: '" * 10_000,
        ("a" * 59 + "…") * 3000,
        "a" * 20_000 + "…",
        "'" + "a" * 100_000 + "'" * 1000,
        '"' * 50_000 + " is not valid JSON" * 100,
    ],
    ids=range(11),
)
def test_a_text_that_is_made_to_be_slow_is_not(text: str) -> None:
    """Each pass is linear: these take some milliseconds, and a test may take a second."""
    assert given_out("s3cr3t", "a" * 60).text(text) is not None


def test_redactors_share_no_secret_and_print_none() -> None:
    """The defaults belong to the class, and a caller that is logged prints its redactor."""
    one, other = Redactor(), Redactor()
    one.add("KEY", "s3cr3t-value")
    assert (one.has_any, other.has_any) == (True, False)
    assert other.text("s3cr3t-value") == "s3cr3t-value"
    assert "s3cr3t" not in repr(one)
