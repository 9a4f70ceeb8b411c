"""Links into the web page."""

import pytest
from sqlalchemy import select

from penstock.chat.web_links import UsedLinks, WebLinks
from penstock.core.errors import LinkExpired
from penstock.core.ids import ProfileId, SessionId, new_id
from penstock.core.limits import Limits
from penstock.core.profile import CHAT, LOCAL_PROFILE, Profile
from penstock.core.world import World
from penstock.store.database import open_database
from penstock.store.tables import used_links
from penstock.testing.clock import FakeClock

ANN = Profile(profile_id=ProfileId("ann"), permissions=frozenset({CHAT}))
SESSION = SessionId("conv_1")


def links(clock: FakeClock, key: bytes = b"key") -> WebLinks:
    """Links of an installation."""
    return WebLinks(key, World(clock, Limits(), new_id), "http://127.0.0.1:8000/")


@pytest.mark.parametrize("profile", [ANN, LOCAL_PROFILE])
def test_a_link_says_what_it_opens_and_for_whom(profile: Profile) -> None:
    clock = FakeClock()
    link = links(clock).to(SESSION, profile)
    place, token = link.split("#web=")
    found = links(clock).read(token)
    assert place == "http://127.0.0.1:8000/"
    assert (found.session_id, found.profile) == (SESSION, profile)
    assert found.name != links(clock).read(links(clock).to(SESSION, profile).split("=")[1]).name


def test_a_link_is_good_for_ten_minutes() -> None:
    """Spec: "a single-use link, good for 10 minutes"."""
    clock = FakeClock()
    token = links(clock).to(SESSION, ANN).split("#web=")[1]
    assert links(clock).minutes == 10
    clock.advance(599)
    links(clock).read(token)
    clock.advance(1)
    with pytest.raises(LinkExpired, match="the time of this link is over"):
        links(clock).read(token)


@pytest.mark.parametrize("token", ["", ".", "x.y", "é.\ud800", "e30.00"])
def test_what_is_no_link_of_ours_opens_nothing(token: str) -> None:
    with pytest.raises(LinkExpired, match="is not one of ours"):
        links(FakeClock()).read(token)


def test_a_link_of_another_installation_opens_nothing() -> None:
    clock = FakeClock()
    token = links(clock, b"other").to(SESSION, ANN).split("#web=")[1]
    with pytest.raises(LinkExpired):
        links(clock).read(token)


async def test_a_link_is_used_once_and_forgotten_when_its_time_is_over() -> None:
    clock, database = FakeClock(), await open_database("sqlite://")
    used = UsedLinks(database, clock)
    link = links(clock).read(links(clock).to(SESSION, ANN).split("#web=")[1])
    await used.use(link)
    with pytest.raises(LinkExpired, match="was used already"):
        await used.use(link)
    clock.advance(600)
    await used.use(links(clock).read(links(clock).to(SESSION, ANN).split("#web=")[1]))
    rows = await database.read(lambda each: each.execute(select(used_links)).all())
    assert len(rows) == 1
    await database.close()
