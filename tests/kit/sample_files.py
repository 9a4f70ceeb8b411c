"""Small files of every kind that a message may have, whole and broken."""

import io
import struct
import wave
import zlib

from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from penstock.core.ids import BlobId
from penstock.store.blobs import Blobs, Memory

DOT = Image.new("RGB", (1, 1), "red")


def image(form: str = "PNG", size: tuple[int, int] = (4, 2), **options: object) -> bytes:
    """Return an image with one colour."""
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, form, **options)
    return file.getvalue()


def animation() -> bytes:
    """Return a GIF with two frames."""
    file, frames = io.BytesIO(), [Image.new("RGB", (4, 2), each) for each in ("red", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


def turned(size: tuple[int, int] = (4, 2)) -> bytes:
    """Return a JPEG whose camera was held upright: it is shown turned by 90 degrees."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return image("JPEG", size, exif=exif)


def bomb(side: int = 60_000) -> bytes:
    """Return a PNG of a few bytes whose header announces more pixels than a machine can hold."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def pdf(*pages: str, locked_by: str = "") -> bytes:
    """Return a PDF with a text on each page."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(200, 200)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Contents")] = stream
    if locked_by:
        writer.encrypt(locked_by)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def wav(seconds: float = 1.0) -> bytes:
    """Return silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(int(8000 * seconds) * 2))
    return file.getvalue()


def mp3(frames: int = 40, *, tag: bool = False) -> bytes:
    """Return frames of MPEG 1 Layer 3 at 128 kbit/s and 44.1 kHz, each 417 bytes long."""
    frame = b"\xff\xfb\x90\x00" + bytes(413)
    head = b"ID3\x04\x00\x00" + bytes([0, 0, 0, 10]) + bytes(10) if tag else b""
    return head + frame * frames


async def hash_of(content: bytes) -> BlobId:
    """Return the id under which bytes are stored."""
    return await Blobs(Memory()).put(content)
