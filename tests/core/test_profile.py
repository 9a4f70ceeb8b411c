"""The profile of a request."""

import pytest

from penstock.core.ids import ProfileId, SessionId
from penstock.core.profile import ADMIN, LOCAL, LOCAL_PROFILE, MANAGE, READ, Profile

ANN, BOB = ProfileId("ann"), ProfileId("bob")


@pytest.mark.parametrize(
    ("profile", "permission", "holds"),
    [
        (Profile(), "read", False),
        (Profile(permissions=frozenset({"read"})), "read", True),
        (Profile(permissions=frozenset({"read"})), "chat", False),
        (Profile(permissions=frozenset({"read"})), "", False),
        (Profile(permissions=frozenset({ADMIN})), "chat", True),
        (Profile(permissions=frozenset({ADMIN})), "mail.send", True),
        (LOCAL_PROFILE, "mail.send", True),
        (LOCAL_PROFILE, ADMIN, True),
    ],
)
def test_a_profile_holds_its_permissions(profile: Profile, permission: str, *, holds: bool) -> None:
    assert profile.holds(permission) is holds


@pytest.mark.parametrize(
    ("profile", "owner", "owns"),
    [
        (Profile(profile_id=ANN), ANN, True),
        (Profile(profile_id=ANN), BOB, False),
        (Profile(profile_id=ANN, permissions=frozenset({READ, MANAGE})), BOB, False),
        (Profile(profile_id=ANN, permissions=frozenset({ADMIN})), BOB, True),
        (LOCAL_PROFILE, BOB, True),
        (Profile(), LOCAL, True),
    ],
)
def test_a_profile_owns_its_own_data_and_an_admin_everything(
    profile: Profile, owner: ProfileId, *, owns: bool
) -> None:
    assert profile.owns(owner, "conv_1") is owns


@pytest.mark.parametrize("log_id", ["conv_1", "conv_2", None])
def test_a_profile_limited_to_one_conversation_owns_only_that(log_id: str | None) -> None:
    profile = Profile(profile_id=ANN, session_id=SessionId("conv_1"))
    assert profile.owns(ANN, log_id) is (log_id == "conv_1")
    assert not profile.owns(BOB, log_id)


def test_the_person_at_this_machine_is_local() -> None:
    assert LOCAL_PROFILE.profile_id == LOCAL == "local"


@pytest.mark.parametrize(
    ("profile", "noted"),
    [
        (Profile(), ()),
        (Profile(permissions=frozenset({"read", "chat"})), ("chat", "read")),
        (LOCAL_PROFILE, None),
    ],
)
def test_the_profile_noted_in_an_event_reads_back(profile: Profile, noted: object) -> None:
    assert profile.noted == noted
    assert Profile.from_noted(profile.profile_id, profile.noted) == profile


@pytest.mark.parametrize(
    ("profile", "listed"),
    [
        (Profile(permissions=frozenset({"b", READ})), ["b", READ]),
        (LOCAL_PROFILE, [ADMIN, "approve", "chat", MANAGE, "orders.send", READ]),
    ],
)
def test_a_profile_with_all_permissions_lists_every_named_one(
    profile: Profile, listed: list[str]
) -> None:
    """Spec: of `local`, "all named in the bundle"."""
    assert profile.listed({"orders.send"}) == listed
