"""Signed links to stored bytes, which work for a while without an API key."""

import hmac
from copy import copy
from hashlib import sha256
from urllib.parse import urlencode

from msgspec import Struct

from penstock.core.clock import Clock, Moment
from penstock.core.errors import LinkExpired
from penstock.core.ids import BlobId
from penstock.core.messages import StoredFile

LINK_SECONDS = 3600
"""How long a link works, unless the settings specify another time."""


class LinkLabel(Struct, frozen=True):
    """Media type and name of the bytes behind a link; both may be empty."""

    media_type: str = ""
    name: str = ""


BARE = LinkLabel()
"""The label of bytes that need neither type nor name."""


class Links:
    """Signs links, and verifies them."""

    def __init__(self, key: bytes, clock: Clock, seconds: int = LINK_SECONDS) -> None:
        """Sign links with a key derived from `key`; they work for a number of seconds."""
        self._key = sha256(b"penstock blob links" + key).digest()
        self._clock = clock
        self._seconds = seconds
        self.root = ""
        """The path that the server is mounted at."""

    def below(self, root: str) -> "Links":
        """Return these links for a server that is mounted at the path `root`."""
        links = copy(self)
        links.root = root
        return links

    def to(self, blob_id: BlobId, ends: Moment | None = None, label: LinkLabel = BARE) -> str:
        """Return a link that works until a moment, by default for the configured time."""
        until = str((self.end() if ends is None else ends) // 1000)
        fields = {"exp": until, "type": label.media_type, "name": label.name}
        signed = fields | {"sig": self._signed(blob_id, until, label)}
        query = urlencode({key: text for key, text in signed.items() if text}, errors="replace")
        return f"{self.root}/api/blobs/{blob_id}?{query}"

    def to_file(self, stored: StoredFile) -> str:
        """Return a link to a file; an image without a name needs no label to be shown."""
        if stored.is_image and not stored.name:
            return self.to(stored.blob_id)
        return self.to(stored.blob_id, label=LinkLabel(stored.mime_type, stored.name or ""))

    def end(self) -> Moment:
        """Return when a link that is made now expires."""
        return Moment((self._clock.now() // 1000 + self._seconds) * 1000)

    def check(self, blob_id: str, until: str, signature: str, label: LinkLabel = BARE) -> None:
        """Raise LinkExpired unless the signature is valid and the link has not expired."""
        right = self._signed(blob_id, until, label).encode()
        if not hmac.compare_digest(right, signature.encode("utf-8", "surrogatepass")):
            raise LinkExpired("the signature of this link is invalid; get a new link")
        if not until.isdecimal() or int(until) * 1000 <= self._clock.now():
            raise LinkExpired("this link has expired; get a new one")

    def _signed(self, blob_id: str, until: str, label: LinkLabel) -> str:
        text = f"{blob_id}.{until}"
        if label != BARE:
            text += f"\n{label.media_type}\n{label.name}"
        return hmac.new(self._key, _bytes(text), sha256).hexdigest()


def _bytes(text: str) -> bytes:
    """Return the bytes of a text as a URL encodes them."""
    return text.encode("utf-8", "replace")
