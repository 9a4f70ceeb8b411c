"""What lies around a flow."""

from penstock.flows.checks.surroundings import Surroundings


def test_around_a_flow_of_nowhere_there_is_nothing() -> None:
    around = Surroundings()
    assert (around.folder, around.flow_at("x.yaml"), around.has_file("x.mts")) == ("", None, False)
    assert around.code_fault("x.mts") is None


def test_the_folder_is_that_of_the_file() -> None:
    assert Surroundings(file="flows/dom/x.yaml").folder == "flows/dom"
