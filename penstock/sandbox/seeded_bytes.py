"""The randomness of one call: long, and the same in every entry."""

import hashlib

_BLOCK = 64


class SeededBytes:
    """Bytes from a seed, one after the other."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed[:_BLOCK]
        self._block = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        pieces = [self._left]
        have = len(self._left)
        while have < count:
            number = self._block.to_bytes(8, "little")
            pieces.append(hashlib.blake2b(number, key=self._seed).digest())
            self._block += 1
            have += _BLOCK
        found = b"".join(pieces)
        self._left = found[count:]
        return found[:count]

    def words(self) -> list[int]:
        """Return four numbers of 32 bits for the script's own generator; nothing is taken."""
        found = hashlib.blake2b(b"words", key=self._seed, digest_size=16).digest()
        return [int.from_bytes(found[at : at + 4], "little") for at in range(0, 16, 4)]
