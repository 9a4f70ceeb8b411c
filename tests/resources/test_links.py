"""Signed links: ours alone, and for a while."""

import pytest

from penstock.core.errors import LinkExpired
from penstock.core.ids import BlobId
from penstock.resources.links import Links
from penstock.testing.clock import FakeClock

KEY = bytes(32)


def parts(link: str) -> tuple[str, str, str]:
    """Return the id, the time and the signature of a link."""
    path, query = link.split("?")
    until, signature = query.split("&")
    return path.rpartition("/")[2], until.partition("=")[2], signature.partition("=")[2]


def test_a_link_is_known_again() -> None:
    links = Links(KEY, FakeClock(), 10)
    link = links.to(BlobId("ab"))
    assert link.startswith("/api/blobs/ab?exp=")
    links.check(*parts(link))


def test_a_link_ends() -> None:
    clock = FakeClock()
    links = Links(KEY, clock, 10)
    link = links.to(BlobId("ab"))
    clock.advance(9.9)
    links.check(*parts(link))
    clock.advance(0.1)
    with pytest.raises(LinkExpired, match="the time of this link is over"):
        links.check(*parts(link))


@pytest.mark.parametrize("change", [0, 1, 2])
def test_nothing_of_a_link_can_be_changed(change: int) -> None:
    links = Links(KEY, FakeClock(), 10)
    wrong = list(parts(links.to(BlobId("ab"))))
    wrong[change] = "9" + wrong[change][1:] + "\ud800é"
    with pytest.raises(LinkExpired, match="signature"):
        links.check(*wrong)


def test_another_installation_signs_otherwise() -> None:
    clock = FakeClock()
    link = Links(b"x" * 32, clock, 10).to(BlobId("ab"))
    with pytest.raises(LinkExpired):
        Links(KEY, clock, 10).check(*parts(link))
