"""Signed links: ours alone, and for a while."""

import pytest

from penstock.core.errors import LinkExpired
from penstock.core.ids import BlobId
from penstock.core.messages import StoredFile
from penstock.resources.signed_links import BARE, LinkLabel, Links
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
    with pytest.raises(LinkExpired, match="this link has expired"):
        links.check(*parts(link))


@pytest.mark.parametrize("change", [0, 1, 2])
def test_nothing_of_a_link_can_be_changed(change: int) -> None:
    links = Links(KEY, FakeClock(), 10)
    wrong = list(parts(links.to(BlobId("ab"))))
    wrong[change] = "9" + wrong[change][1:] + "\ud800é"
    blob_id, until, signature = wrong
    with pytest.raises(LinkExpired, match="signature"):
        links.check(blob_id, until, signature)


def test_another_installation_signs_otherwise() -> None:
    clock = FakeClock()
    link = Links(b"x" * 32, clock, 10).to(BlobId("ab"))
    with pytest.raises(LinkExpired):
        Links(KEY, clock, 10).check(*parts(link))


def test_the_signature_covers_the_label() -> None:
    links = Links(KEY, FakeClock(), 10)
    named = LinkLabel("text/csv", "a b.csv")
    link = links.to(BlobId("ab"), label=named)
    assert "&type=text%2Fcsv&name=a+b.csv&sig=" in link
    until, signature = link.partition("exp=")[2].partition("&")[0], link.rpartition("=")[2]
    links.check("ab", until, signature, named)
    for other in (BARE, LinkLabel("text/html", "a b.csv"), LinkLabel("text/csv", "b.csv")):
        with pytest.raises(LinkExpired):
            links.check("ab", until, signature, other)


@pytest.mark.parametrize(
    ("name", "is_image", "labelled"), [(None, True, False), ("a", True, True), (None, False, True)]
)
def test_a_link_to_an_image_has_its_type(
    name: str | None, *, is_image: bool, labelled: bool
) -> None:
    stored = StoredFile(
        blob_id=BlobId("ab"), mime_type="image/png", size=1, is_image=is_image, name=name
    )
    assert ("type=image%2Fpng" in Links(KEY, FakeClock(), 10).to_file(stored)) is labelled


def test_equal_bytes_of_two_names_have_two_links() -> None:
    links = Links(KEY, FakeClock(), 10)
    one, other = (links.to(BlobId("ab"), label=LinkLabel("text/csv", each)) for each in "ab")
    assert one != other
