"""The attachments of an answer: small media that its tools sent."""

from typing import Any

from penstock.chat.representations import LinkTo
from penstock.core.events.events import CallSettled, StoredFile

TOOL = "send_media_attachment"
"""Calls of this tool add attachments, at any depth."""
MOST = 20
"""An answer has at most this many."""


class Attachments:
    """The attachments of one answer, in the order of the calls; each media id once."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def add(self, settled: CallSettled) -> None:
        """Add the attachment of a settled call, if it has one."""
        output = settled.envelope.output
        if settled.tool_id != TOOL or not settled.files or not isinstance(output, dict):
            return
        has_room = len(self._files) < MOST
        if has_room and output.get("send_as_attachment") is True:
            self._files.setdefault(output["media_id"], settled.files[0])

    def parts(self, link_to: LinkTo) -> list[dict[str, Any]]:
        """Return the attachments for readers, with freshly signed links."""
        return [
            {
                "mediaId": media_id,
                "name": each.name or media_id,
                "url": link_to(each),
                "mimeType": each.mime_type,
                "bytes": each.size,
            }
            for media_id, each in self._files.items()
        ]
