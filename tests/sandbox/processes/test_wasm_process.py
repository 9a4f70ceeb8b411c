"""A worker is started with access to the files that it needs, and to nothing else."""

from pathlib import Path

from penstock.sandbox.processes.wasm_process import command


def test_a_worker_reads_its_interpreter_its_code_and_its_cache(tmp_path: Path) -> None:
    result = command(tmp_path, 64, ["landlock"])
    assert str(tmp_path) in result.read
    assert not {"/", "/etc", "/root", "/home", str(Path.home())} & {*result.read, *result.execute}
    assert set(result.environment) == {"PYTHONDONTWRITEBYTECODE", "TZ"}
    assert result.limits["FSIZE"] == 0
    assert result.limits["DATA"] > 64 << 20
