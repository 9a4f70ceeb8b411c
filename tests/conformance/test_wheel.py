"""What is built holds the blobs: a wheel runs scripts without npm, and is built from an sdist."""

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINS = json.loads((ROOT / "penstock/sandbox/blobs.json").read_text())
FOLDER = "penstock/sandbox/blobs"


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build without the network: no npm is found, nothing is installed."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
        env={"PATH": "", "NPM": "/nowhere/npm"},
    )
    (built,) = folder.iterdir()
    return built


@pytest.mark.slow("builds an sdist, and a wheel of it")
def test_a_wheel_of_an_sdist_has_the_blobs_and_their_licences(tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert not (source / ".git").exists()
    wheel = build("wheel", source, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        for name, pin in PINS.items():
            content = archive.read(f"{FOLDER}/{name}")
            assert hashlib.sha256(content).hexdigest() == pin["sha256"]
            assert b"opyright" in archive.read(f"{FOLDER}/{name}.LICENSE")
        assert "penstock/sandbox/blobs.json" in archive.namelist()


def test_an_editable_install_reads_the_blobs_of_make_setup() -> None:
    """So it needs no npm, and no blobs either."""
    hook = ROOT / "hatch_build.py"
    program = (
        f"import runpy; hook = runpy.run_path({str(hook)!r})['BlobHook']; found = {{}}\n"
        f"hook('/nowhere', {{}}, None, None, '', 'wheel').initialize('editable', found)\n"
        "assert found == {}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow("builds a wheel, and installs it into an environment of its own")
def test_a_wheel_runs_the_example_where_there_is_no_node(tmp_path: Path) -> None:
    """The built wheel installs into an empty environment without Node, and runs the example.

    What it needs of others is lent to the environment: no test downloads anything.
    """
    wheel = build("wheel", ROOT, tmp_path / "wheel")
    home = tmp_path / "environment"
    ran(sys.executable, "-m", "venv", "--without-pip", str(home))
    own = str(home / "bin" / "python")
    install = ("-m", "uv", "pip", "install", "--offline", "--no-cache", "--no-deps")
    ran(sys.executable, *install, "--python", own, str(wheel))
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib"))
    assert str(site) in ran(own, "-c", "import penstock; print(penstock.__file__)")
    example = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", example, ignore=shutil.ignore_patterns(".penstock"))
    order = json.dumps({"item": "tea", "quantity": 2})
    penstock = str(home / "bin" / "penstock")
    said = ran(penstock, "run-tool", "price_order", "--project", str(example), "--input", order)
    assert json.loads(said)["status"] == "success"


def ran(*command: str) -> str:
    """Return what a command prints, which finds no other program."""
    given = {"PATH": "", "HOME": "/nowhere", "XDG_CACHE_HOME": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout
