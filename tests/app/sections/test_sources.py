"""The source of a setting."""

import json
from pathlib import Path

from penstock.app.sections.sources import Sources

TEXT = """
size = 1
[server]  # where
port = 1
"a.b" = 2
[deep.inner]
x = 1
[[rules]]
tool = "a"
[[rules]]
tool = "b"
"""


def sources(root: Path, **variables: str) -> Sources:
    (root / "p.toml").write_text(TEXT)
    return Sources(root / "p.toml", variables, {"given": {"a": 1}}, prefix="P_")


def test_a_value_of_the_file_has_its_line(tmp_path: Path) -> None:
    source = sources(tmp_path)
    places = [("size",), ("server", "port"), ("deep", "inner", "x"), ("rules", "1", "tool")]
    assert [source.source_of(place) for place in places] == [
        "p.toml:2: ",
        "p.toml:4: ",
        "p.toml:7: ",
        "p.toml:11: ",
    ]


def test_a_missing_key_has_the_line_of_its_section(tmp_path: Path) -> None:
    assert sources(tmp_path).source_of(("server", "missing")) == "p.toml:3: "


def test_values_of_variables_and_of_the_program_name_their_source(tmp_path: Path) -> None:
    source = sources(tmp_path, P_SERVER__PORT="7", OTHER="x")
    assert source.source_of(("server", "port")) == "P_SERVER__PORT: "
    assert source.source_of(("given", "a")) == ""


def test_values_are_merged_table_by_table(tmp_path: Path) -> None:
    source = sources(tmp_path, P_SERVER__PORT="7", P_SIZE="8", P_SERVER__X='{"y": 1}')
    merged = json.loads(source.merged(lambda path: path == ("size",)))
    assert merged["server"] == {"port": 7, "a.b": 2, "x": {"y": 1}}
    assert merged["size"] == "8"
    assert merged["given"] == {"a": 1}
