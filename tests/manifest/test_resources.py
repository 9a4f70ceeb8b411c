"""The files that come with a skill."""

from pathlib import Path

import pytest

from penstock.manifest.resources import MOST_RESOURCES, Resource, list_resources
from tests.kit.manifests import load, skill, write

FILES = {
    "web/s.skill.yaml": skill("instruction_file: ./read/me.md", instruction=""),
    "web/read/me.md": "Do it.",
    "web/a.tool.yaml": "",
    "web/p.prompts.yaml": "",
    "web/x.schedule.yaml": "",
    "web/lib/run.mts": "",
    "web/lib/run.js": "",
    "web/.hidden": "",
    "web/penstock.toml": "",
    "web/.env": "",
    "web/prod.env": "",
    "web/.penstock/penstock.db": "",
    "web/data/penstock.db": "",
    "web/data/penstock.db-wal": "",
    "web/data/secret.key": "",
    "web/.git/config": "",
    "web/other/o.skill.yaml": skill(skill_id="o"),
    "web/other/deep/mine.txt": "",
    "web/lib/table.csv": "a,b",
    "web/b": "??",
    "out.txt": "",
}


def test_a_skill_brings_its_files_and_nothing_else(tmp_path: Path) -> None:
    """Except manifests, the `instruction_file`, scripts, hidden files, and other skills."""
    found = load(tmp_path, FILES).skills["s"]
    (tmp_path / "web/link.txt").symlink_to("../out.txt")
    (tmp_path / "web/folder").symlink_to("..")
    assert list_resources(tmp_path, found) == (
        Resource(resource_id="resource.1", path="b", media_type="application/octet-stream", size=2),
        Resource(resource_id="resource.2", path="lib/table.csv", media_type="text/csv", size=3),
    )


@pytest.mark.slow("two hundred files")
def test_a_skill_brings_at_most_two_hundred_by_path(tmp_path: Path) -> None:
    found = load(tmp_path, {"s.skill.yaml": skill()}).skills["s"]
    write(tmp_path, {f"{number:03}.txt": "" for number in range(MOST_RESOURCES + 5)})
    resources = list_resources(tmp_path, found)
    assert len(resources) == MOST_RESOURCES
    assert (resources[-1].resource_id, resources[-1].path) == ("resource.200", "199.txt")
