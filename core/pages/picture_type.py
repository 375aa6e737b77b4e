"""Tell whether bytes are a picture that a browser may be given: by what they are, and by what their server says.

Pictures that can hold scripts (SVG) or that need a plug-in are none of these.
"""

from __future__ import annotations

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
_OTHER_NAMES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_AVIF_BRANDS = (b"avif", b"avis")


def picture_type(body: bytes, content_type: str) -> str:
    """Return the content type of a picture; empty if the bytes are none, or are not what their server says."""
    stated = content_type.partition(";")[0].strip().lower()
    found = _by_first_bytes(body)
    return found if found and _OTHER_NAMES.get(stated, stated) == found else ""


def _by_first_bytes(body: bytes) -> str:
    if body.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if body.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if body.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if body.startswith(b"RIFF") and body[8:12] == b"WEBP":
        return "image/webp"
    if body[4:8] == b"ftyp" and body[8:12] in _AVIF_BRANDS:
        return "image/avif"
    return ""
