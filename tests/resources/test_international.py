"""International names of hosts."""

import pytest

from penstock.resources.international import ascii_name


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER。example.", "xn--bcher-kva.example."),
        ("straße.de", "xn--strae-oqa.de"),
        ("\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54", "localhost"),
        ("local\u200bhost", "localhost"),
        ("\uff11\uff12\uff17。\uff10\uff0e\uff10｡\uff11", "127.0.0.1"),
        ("①\uff127.0.0.1", "127.0.0.1"),
    ],
)
def test_all_spellings_give_one_name(host: str, name: str) -> None:
    assert ascii_name(host) == name


def test_an_invalid_host_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="'a\uff0fb' is not a valid host name"):
        ascii_name("a\uff0fb")
