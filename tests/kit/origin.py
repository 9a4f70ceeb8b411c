"""A server on this machine with scripted responses, with TLS on request."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Say = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Gets the head and the body of a request as text, and answers."""
_DAY = timedelta(days=1)
_MIDDAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Origin:
    """A server that is running."""

    port: int
    heard: list[str] = field(default_factory=list)


@asynccontextmanager
async def origin(
    say: Say, tls: ssl.SSLContext | None = None, *, hangs: bool = False
) -> AsyncIterator[Origin]:
    """Serve on a free port; one that hangs says no more until the other side goes."""
    running = Origin(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            running.heard.append(await _request(reader))
            await say(running.heard[-1], writer)
            await writer.drain()
            if hangs:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        await server.wait_closed()


def says(*pieces: bytes) -> Say:
    """Answer every request with these bytes."""

    async def say(_: str, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)

    return say


def answer(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    """Return a whole answer."""
    head = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


@cache
def authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate authority of this run."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
    made = _certificate(name, name, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return made.sign(key, hashes.SHA256()), key


def trusting() -> ssl.SSLContext:
    """Return the TLS of a client that trusts the authority."""
    context = ssl.create_default_context()
    pem = authority()[0].public_bytes(serialization.Encoding.PEM)
    context.load_verify_locations(cadata=pem.decode())
    return context


def serving(host: str, folder: Path) -> ssl.SSLContext:
    """Return the TLS of a server that the authority calls by a name."""
    issuer, issuer_key = authority()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    made = _certificate(name, issuer.subject, key).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
    )
    certificate = made.sign(issuer_key, hashes.SHA256())
    file = folder / f"{host}.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_MIDDAY - _DAY)
        .not_valid_after(_MIDDAY + 36_500 * _DAY)
    )


async def _request(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    for line in head.lower().split("\r\n"):
        if line.startswith("content-length:"):
            head += (await reader.readexactly(int(line.partition(":")[2]))).decode("latin-1")
    return head
