"""Wheel and sdist are complete: they install and work without npm and without the network."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PINS = json.loads((ROOT / "penstock/sandbox/blobs.json").read_text())
FOLDER = "penstock/sandbox/blobs"


class Built(NamedTuple):
    """What a release consists of."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build both from the repository, as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    return Built(build("sdist", ROOT, folder / "sdist"), build("wheel", ROOT, folder / "wheel"))


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build without the network: no npm is found, nothing is installed."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
        env={"PATH": "", "NPM": "/nowhere/npm"},
    )
    (made,) = folder.iterdir()
    return made


def contents(wheel: Path) -> dict[str, bytes]:
    """Return every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow("builds an sdist, and a wheel of it")
def test_a_wheel_of_the_sdist_is_the_wheel_of_the_repository(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert not (source / ".git").exists()
    assert contents(build("wheel", source, tmp_path / "wheel")) == contents(built.wheel)


@pytest.mark.slow("builds a wheel, if it is the first")
def test_a_wheel_has_types_blobs_with_their_licences_and_no_tests(built: Built) -> None:
    files = contents(built.wheel)
    for name, pin in PINS.items():
        assert hashlib.sha256(files[f"{FOLDER}/{name}"]).hexdigest() == pin["sha256"]
        assert b"opyright" in files[f"{FOLDER}/{name}.LICENSE"]
    assert {"penstock/py.typed", "penstock/__init__.pyi", f"{FOLDER}.json"} <= files.keys()
    migrations = {f"penstock/{each}" for each in in_package("store/migrations/**/*.py")}
    assert migrations
    assert migrations <= files.keys()
    information = re.compile(r"penstock-[\w.]+\.dist-info/")
    assert [each for each in files if not each.startswith("penstock/")] == [
        each for each in files if information.match(each)
    ]


def in_package(pattern: str) -> list[str]:
    """Return files of the package, by their place in it."""
    package = ROOT / "penstock"
    return [str(each.relative_to(package)) for each in package.glob(pattern)]


def test_an_editable_install_reads_the_blobs_of_make_setup() -> None:
    """So it needs no npm, and no blobs either."""
    hook = ROOT / "hatch_build.py"
    program = (
        f"import runpy; hook = runpy.run_path({str(hook)!r})['BlobHook']; found = {{}}\n"
        f"hook('/nowhere', {{}}, None, None, '', 'wheel').initialize('editable', found)\n"
        "print(found)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"


@pytest.mark.slow("installs what was built into an environment of its own")
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_built_wheel_works_in_an_empty_environment(
    kind: str, built: Built, tmp_path: Path
) -> None:
    """It prints its version, starts a project, and calls a Python tool and a script.

    What it needs of others is lent to the environment: no test downloads anything.
    """
    release = built.wheel if kind == "wheel" else built.sdist
    penstock = str(install(release, tmp_path / "environment"))
    assert f"-{ran(penstock, '--version').split()[1]}" in release.name
    project = str(tmp_path / "demo")
    ran(penstock, "init", project)
    said = ran(penstock, "call", "hello", "name=Ann", "--project", project)
    assert json.loads(said) == {"greeting": "Hello, Ann!"}
    example = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", example, ignore=shutil.ignore_patterns(".penstock"))
    order = json.dumps({"item": "tea", "quantity": 2})
    said = ran(penstock, "run-tool", "price_order", "--project", str(example), "--input", order)
    assert json.loads(said)["status"] == "success"


def install(release: Path, home: Path) -> Path:
    """Install a release into a new environment; return its command."""
    ran(sys.executable, "-m", "venv", "--without-pip", str(home))
    own = str(home / "bin" / "python")
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib"))
    flags = ("--offline", "--no-cache", "--no-deps", "--no-build-isolation")
    ran(sys.executable, "-m", "uv", "pip", "install", *flags, "--python", own, str(release))
    assert str(site) in ran(own, "-c", "import penstock; print(penstock.__file__)")
    return home / "bin" / "penstock"


def ran(*command: str) -> str:
    """Return what a command prints, which finds no other program."""
    given = {"PATH": "", "HOME": "/nowhere", "XDG_CACHE_HOME": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout
