"""Links to stored bytes that work for a while, without a key."""

import hmac
from hashlib import sha256

from penstock.core.clock import Clock, Moment
from penstock.core.errors import LinkExpired
from penstock.core.ids import BlobId


class Links:
    """Signs links, and knows its own."""

    def __init__(self, key: bytes, clock: Clock, seconds: int) -> None:
        self._key = sha256(b"penstock blob links" + key).digest()
        self._clock = clock
        self._seconds = seconds

    def to(self, blob_id: BlobId, ends: Moment | None = None) -> str:
        """Return a link to the bytes, which works until a moment, or as long as links do."""
        until = (self.end() if ends is None else ends) // 1000
        return f"/api/blobs/{blob_id}?exp={until}&sig={self._signed(blob_id, str(until))}"

    def end(self) -> Moment:
        """Return until when a link works that is made now."""
        return Moment((self._clock.now() // 1000 + self._seconds) * 1000)

    def check(self, blob_id: str, until: str, signature: str) -> None:
        """Raise LinkExpired unless the link is one of ours and its time is not over."""
        right = self._signed(blob_id, until).encode()
        if not hmac.compare_digest(right, signature.encode("utf-8", "surrogatepass")):
            raise LinkExpired("the signature of this link is not right; get a new link")
        if not until.isdecimal() or int(until) * 1000 <= self._clock.now():
            raise LinkExpired("the time of this link is over; get a new one")

    def _signed(self, blob_id: str, until: str) -> str:
        text = f"{blob_id}.{until}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, sha256).hexdigest()
