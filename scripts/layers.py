"""Draw the layers: how large each package is, and which packages it imports."""

import re
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print a line for each package, the highest layer first."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    root = tool["importlinter"]["root_package"]
    layers = tool["importlinter"]["contracts"][0]["layers"]
    graph = grimp.build_graph(root)
    print(f"{'layer':>5}  {'package':<10} {'files':>5} {'lines':>6}  imports")
    for number, layer in zip(range(len(layers), 0, -1), layers, strict=True):
        for package in re.split(r"[\s|()]+", layer):
            print(f"{number:>5}  {row(graph, root, package)}")


def row(graph: grimp.ImportGraph, root: str, package: str) -> str:
    """Describe one package."""
    place = ROOT / root / package
    paths = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    lines = sum(len(path.read_text().splitlines()) for path in paths)
    return f"{package:<10} {len(paths):>5} {lines:>6}  {', '.join(imported(graph, root, package))}"


def imported(graph: grimp.ImportGraph, root: str, package: str) -> list[str]:
    """Name the packages that a package imports, and itself not."""
    home = f"{root}.{package}"
    modules = {home} | graph.find_descendants(home)
    found = {name for module in modules for name in graph.find_modules_directly_imported_by(module)}
    return sorted({name.split(".")[1] for name in found if "." in name} - {package})


if __name__ == "__main__":
    main()
