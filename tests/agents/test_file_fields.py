"""The table of an agent file."""

from penstock.agents.file_fields import ACCESS, CARD, FIELDS, PURPOSE

PAGE = (
    "name description model thinking tools skills inputs outputs interactive output context_files "
    "context fork_session access card architect max_turns"
)


def test_every_field_of_the_page_is_read() -> None:
    assert [each.key for each in FIELDS] == [*PAGE.split(), "selected_skills", "labels", "settings"]
    assert [each.key for each in ACCESS] == ["read", "write", "bash"]
    assert [each.key for each in CARD] == ["type", "label", "metric", "role"]
    assert [each.key for each in PURPOSE] == ["use_when", "produces", "depends_on", "domain"]


def test_every_field_says_what_it_must_be_and_what_it_means() -> None:
    assert all(each.kind.wanted and each.meaning for each in (*FIELDS, *ACCESS, *CARD, *PURPOSE))
