"""How a worker is started: with what it needs to read, and nothing else."""

from pathlib import Path

from penstock.sandbox.processes.wasm_apart import command


def test_a_worker_reads_its_interpreter_its_code_and_its_cache(tmp_path: Path) -> None:
    found = command(tmp_path, 64, ["landlock"])
    assert str(tmp_path) in found.read
    assert not {"/", "/etc", "/root", "/home", str(Path.home())} & {*found.read, *found.execute}
    assert set(found.environment) == {"PYTHONDONTWRITEBYTECODE", "TZ"}
    assert found.limits["FSIZE"] == 0
    assert found.limits["DATA"] > 64 << 20
