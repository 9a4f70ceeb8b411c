"""Stand-ins for secrets."""

from urllib.parse import quote

from penstock.resources.handles import SecretHandles


def test_a_handle_is_text_that_nobody_can_guess_and_opens_where_it_stands() -> None:
    """V7: "an object whose string form is a random placeholder"."""
    handles = SecretHandles()
    one, two = handles.new("token", "s3 same"), handles.new("token", "s3 same")
    assert one != two
    assert "s3" not in one
    assert handles.open(f"Bearer {one}") == "Bearer s3 same"
    assert handles.open(f"q={two}&r", quote) == "q=s3%20same&r"
    assert handles.keys_in("x", f"a{one}b") == {"token"}


def test_handles_of_another_entry_are_inert() -> None:
    handle = SecretHandles().new("token", "s3same")
    other = SecretHandles()
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
    other.new("b", "other")
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
