"""The llama.cpp server on this machine: writes its model, prints its port, lives as stdin does."""

import socket
import sys
import tempfile
from pathlib import Path

import xllamacpp

from tests.peer import model_file


def main() -> None:
    """Serve the OpenAI and the Anthropic wire until stdin ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tiny.gguf")
        context = int(sys.argv[1]) if sys.argv[1:] else model_file.CONTEXT
        model_file.write(path, context)
        settings = xllamacpp.CommonParams()
        settings.model.path = path
        settings.n_ctx = context
        settings.n_parallel = 2
        settings.port = _free_port()
        settings.use_jinja = True
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.sampling.seed = 1
        server = xllamacpp.Server(settings)
        sys.stdout.write(f"READY {settings.port} {server.listening_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
