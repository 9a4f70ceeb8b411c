"""What pages say of files is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "penstock"


def test_every_file_that_a_page_names_is_there() -> None:
    """`floor/file` and `tests/...` anywhere; before its first heading, a floor's list of files."""
    floors = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    pages = [ROOT / "AGENTS.md", *(ROOT / "docs" / f"{each}.md" for each in ("words", *floors))]
    wrong = []
    for page in (each for each in pages if each.exists()):
        text = page.read_text()
        named = re.findall(rf"`((?:{'|'.join(floors)})/[\w/]+|tests/[\w/]+(?:\.py)?)`", text)
        heads = re.findall(r"^- (`\w+`(?:, `\w+`)*)", text.partition("\n## ")[0], re.MULTILINE)
        named += [f"{page.stem}/{each}" for head in heads for each in re.findall(r"\w+", head)]
        homes = {each: (SOURCE, ROOT)[each.startswith("tests/")] / each for each in named}
        wrong += [
            f"{page.name}: {each}"
            for each, home in homes.items()
            if not home.exists() and not home.with_suffix(".py").exists()
        ]
    assert wrong == [], "\n".join(wrong)
