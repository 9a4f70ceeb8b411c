"""A secret that an honest program printed byte by byte is found."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.byte_lists import ByteLists
from penstock.resources.redact import Redactor
from tests.kit.json_values import FEW

SECRETS = [
    "sk-live-9fK2xQz7LmT4vB8n",
    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY==",
    'pä"ss wörd/+&=x9',
]
SECRETS += ["Q7" + "abcdefghij0123456789" * 12]
NAME = "[secret:token]"


def listed(secret: str) -> list[int]:
    return [*secret.encode()]


def dumped(secret: str, *, group: int, column: str) -> str:
    """Return a dump as `xxd` (groups of two bytes) and `hexdump -C` (of one) print it."""
    content, lines = secret.encode(), list[str]()
    for start in range(0, len(content), 16):
        row = content[start : start + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{start:08x}: {row.hex(' ', -group)}  {column}{text}{column}")
    return "\n".join(lines)


NOTATIONS: dict[str, Callable[[str], str]] = {
    "console.log([...bytes])": lambda each: str(listed(each)),
    "JSON without spaces": lambda each: json.dumps(listed(each), separators=(",", ":")),
    "a Buffer in JSON": lambda each: json.dumps({"data": listed(each)}, indent=2),
    "JSON in JSON": lambda each: json.dumps(json.dumps(listed(each), indent=2)),
    "a Uint8Array in JSON": lambda each: json.dumps(dict(enumerate(listed(each)))),
    "a Uint8Array as Deno prints it": lambda each: ",\n".join(f"{n:>5}" for n in listed(each)),
    "<Buffer …>": lambda each: f"<Buffer {each.encode().hex(' ')}>",
    "a fingerprint": lambda each: each.encode().hex(":").upper(),
    "mixed case": lambda each: "".join(
        letter.upper() if place % 3 else letter for place, letter in enumerate(each.encode().hex())
    ),
    "xxd -i": lambda each: ", ".join(f"0x{n:02x}" for n in listed(each)),
    "xxd": lambda each: dumped(each, group=2, column=""),
    "hexdump -C": lambda each: dumped(each, group=1, column="|"),
    "od -b": lambda each: " ".join(f"{n:03o}" for n in listed(each)),
    "one number a line, in JSON in JSON": lambda each: json.dumps(
        "\n".join(map(str, listed(each)))
    ),
    "hex pairs in JSON": lambda each: json.dumps(each.encode().hex(" ").split()),
    "octal escapes": lambda each: "".join(f"\\{n:03o}" for n in listed(each)),
    "[...text]": lambda each: json.dumps([*each], ensure_ascii=False),
    "{...text}": lambda each: json.dumps(dict(enumerate(each)), ensure_ascii=False),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_secret_that_is_printed_byte_by_byte_is_redacted(notation: str, secret: str) -> None:
    redactor = Redactor()
    redactor.add("token", secret)
    spelled = NOTATIONS[notation](secret)
    cleaned = redactor.json({"output": f"read:\n{spelled}\nend"})["output"]
    kept = cleaned.replace(NAME, "").removeprefix("read:\n").removesuffix("\nend")
    assert NAME in cleaned
    assert len(kept) <= max(0.3 * len(spelled), 10)
    assert cleaned.startswith("read:\n")
    assert cleaned.endswith("\nend")


@pytest.mark.parametrize("notation", ["console.log([...bytes])", "<Buffer …>", "xxd -i", "od -b"])
@pytest.mark.parametrize("length", [40, 60])
def test_the_beginning_of_a_list_is_taken_out_where_a_text_was_cut(
    notation: str, length: int
) -> None:
    redactor = Redactor()
    redactor.add("token", SECRETS[0])
    cut = NOTATIONS[notation](SECRETS[0])[:length]
    cleaned = redactor.text(f"bad {cut}… and 73 6b more")
    assert cleaned.endswith(f"{NAME} and 73 6b more")
    assert cleaned.removeprefix("bad ").partition(NAME)[0] in {"", "[", "<Buffer ", "0x"}


LISTS: dict[str, Callable[[str], Any]] = {
    "bytes": listed,
    "codes": lambda each: [*map(ord, each)],
    "characters": lambda each: [*each],
    "hex pairs": lambda each: each.encode().hex(" ").split(),
    "an object of bytes": lambda each: {str(at): n for at, n in enumerate(each.encode())},
    "an object of characters": lambda each: {str(at): n for at, n in enumerate(each)},
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", LISTS)
def test_a_secret_that_is_returned_as_a_list_is_redacted(kind: str, secret: str) -> None:
    """As JSON, not as a text: a tool that returns what it read."""
    redactor = Redactor()
    redactor.add("token", secret)
    spelled = LISTS[kind](secret)
    found = {"0": NAME} if isinstance(spelled, dict) else [NAME]
    assert redactor.holds_secret({"read": [spelled]})
    assert redactor.json({"read": [spelled, 5]}) == {"read": [found, 5]}


def test_items_around_a_secret_in_a_list_stay() -> None:
    redactor = Redactor()
    redactor.add("token", SECRETS[0])
    whole = [1, 2, *listed(SECRETS[0]), 300]
    assert redactor.json(whole) == [1, 2, NAME, 300]
    inside = {"a": 1, **{str(at): n for at, n in enumerate(listed(SECRETS[0]))}, "b": 300}
    assert redactor.json(inside) == {"a": 1, "0": NAME, "b": 300}
    others: list[Any] = [
        [*range(300)],
        ["ab", "cd", 5, None, "e", "f", "g"],
        [True] * 9,
        [10**30] * 9,
    ]
    assert redactor.json(others) is others


OTHERS = [
    "115, 107, 45, 108, 105",
    "73:6b:2d:6c:69:99",
    "s, k, y",
    "00000000: 736b 2d6c  sk-l",
    "1151074510810511810145",
]


@pytest.mark.parametrize("text", OTHERS)
def test_a_part_and_other_numbers_are_left(text: str) -> None:
    assert [*ByteLists(SECRETS[0]).places(text)] == []
    assert [*ByteLists("short").places(str(listed("short")))] == []


@given(st.binary(min_size=40, max_size=400), st.integers(0, 30))
@FEW
def test_a_secret_inside_a_dump_of_a_larger_file_is_found(content: bytes, start: int) -> None:
    whole = (content[:start] + SECRETS[0].encode() + content[start:]).decode("latin-1")
    redactor = Redactor()
    redactor.add("token", SECRETS[0])
    cleaned = redactor.text(dumped(whole, group=1, column="|"))
    assert NAME in cleaned
    assert "xQz7" not in cleaned


def test_most_of_a_long_secret_is_compiled_when_a_text_has_its_beginning() -> None:
    """To compile all of it at once holds the event loop up, for each task that is given it."""
    secret, times = "".join(chr(33 + number * 7 % 90) for number in range(1800)), list[float]()
    for text in ("", str(listed(secret))):
        re.purge()
        began = time.process_time()
        found = [*ByteLists(secret).places(text)]
        times.append(time.process_time() - began)
        assert bool(found) is bool(text)
    assert times[0] < times[1] / 2
