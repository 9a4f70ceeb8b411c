"""Chance repeats for one seed, and differs for another."""

from penstock.sandbox.seeded_bytes import SeededBytes


def test_bytes_do_not_depend_on_how_they_are_taken() -> None:
    one, other = SeededBytes(b"seed" * 8), SeededBytes(b"seed" * 8)
    pieces = b"".join(one.take(size) for size in (1, 0, 63, 64, 200))
    assert pieces == other.take(328)
    assert len(set(pieces)) > 100


def test_another_seed_gives_other_bytes_and_other_words() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(31) + b"\1")
    assert one.take(16) != other.take(16)
    assert one.words() != other.words()


def test_words_take_nothing() -> None:
    one, other = SeededBytes(bytes(32)), SeededBytes(bytes(32))
    assert one.words() == one.words()
    assert one.take(8) == other.take(8)
