"""The content of a message that a program sends: text, and files with it."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self, TypeAlias

from penstock.agents.attachments.kinds import FileKind
from penstock.core.ids import BlobId


class Attachment:
    """A file to send with a message. Use `Image`, `Document` or `Audio`."""

    __slots__ = ("blob_id", "data", "mime", "name", "path", "url")
    kinds: ClassVar[frozenset[FileKind]] = frozenset(FileKind)
    """The kinds that its bytes may have."""

    def __init__(
        self, data: bytes | None = None, *, mime: str | None = None, name: str | None = None
    ) -> None:
        """Send these bytes.

        Args:
            data: The bytes of the file.
            mime: The media type, which the bytes must have; None takes what they show.
            name: The name that the model and readers of the conversation see.

        Raises:
            TypeError: A path or an address is given in place of bytes.
        """
        if isinstance(data, str | os.PathLike):
            raise TypeError(
                f"{type(self).__name__} takes bytes, found {data!r}: write "
                f"{type(self).__name__}.open(path) for a file, .from_url(url) for an address"
            )
        self.data = data
        self.mime = mime
        self.name = name
        self.blob_id: BlobId | None = None
        """Bytes that the profile uploaded before."""
        self.path: Path | None = None
        self.url: str | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Send a file of this machine. It is read when the message is sent.

        Args:
            path: The file; its name is shown.

        Returns:
            The file, for a message.

        Raises:
            FileNotFoundError: There is no such file.
        """
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        # Not read here: the limits are known to the runtime, and a large file would block its loop.
        opened = cls(name=file.name)
        opened.path = file
        return opened

    @classmethod
    def from_url(cls, url: str, *, name: str | None = None) -> Self:
        """Send a file of the web. The runtime fetches it when the message is sent.

        Args:
            url: An http or https address that the project's `[egress]` allows.
            name: The name to show; None takes it from the address.

        Returns:
            The file, for a message.
        """
        made = cls(name=name)
        made.url = url
        return made

    @classmethod
    def from_upload(cls, blob_id: str, *, name: str | None = None) -> Self:
        """Send bytes that were uploaded before, or that the conversations of the profile have.

        Args:
            blob_id: The `blobId` that `POST /api/blobs` returned.
            name: The name to show; None takes that of the upload.

        Returns:
            The file, for a message.
        """
        made = cls(name=name)
        made.blob_id = BlobId(blob_id)
        return made

    def __repr__(self) -> str:
        """Return the class and the source, without the bytes."""
        source = self.url or self.path or self.blob_id or f"{len(self.data or b'')} bytes"
        named = f" {self.name!r}:" if self.name else ""
        return f"<{type(self).__name__}{named} {source}>"


class Image(Attachment):
    """A PNG, JPEG, GIF or WebP.

    Example:
        >>> import asyncio, base64
        >>> from penstock import Image
        >>> from penstock.testing import memory_runtime
        >>> dot = base64.b64decode(
        ...     "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
        ...     "AABJRU5ErkJggg=="
        ... )
        >>> async def main() -> None:
        ...     async with memory_runtime() as runtime:
        ...         reply = await runtime.chat(["What is this?", Image(dot, name="dot.png")])
        ...         print(reply.status)
        >>> asyncio.run(main())
        succeeded
    """

    __slots__ = ()
    kinds = frozenset({FileKind.IMAGE})


class Document(Attachment):
    r"""A PDF, or a text: plain, Markdown, CSV, JSON and the like, in UTF-8.

    Example:
        >>> from penstock import Document
        >>> Document(b"a,b\n1,2\n", name="sums.csv").name
        'sums.csv'
    """

    __slots__ = ()
    kinds = frozenset({FileKind.PDF, FileKind.TEXT})


class Audio(Attachment):
    """A WAV or MP3.

    Example:
        >>> from penstock import Audio
        >>> Audio.from_url("https://example.org/talk.mp3").url
        'https://example.org/talk.mp3'
    """

    __slots__ = ()
    kinds = frozenset({FileKind.AUDIO})


Content: TypeAlias = str | Sequence[str | Image | Document | Audio]
"""The content of a message: a text, or texts and files in the order in which they are meant."""
