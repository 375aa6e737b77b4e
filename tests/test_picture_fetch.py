"""Pictures that a browser may be given."""

from __future__ import annotations

import pytest

from core.net.picture_fetch import MAX_PICTURE_BYTES, NoPicture, fetch_picture
from core.pages.picture_type import picture_type
from core.runtime.context import Context, open_context
from core.settings import Settings
from tests.web import FakeWeb

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("body", "stated", "expected"),
    [
        (PNG, "image/png", "image/png"),
        (b"\xff\xd8\xff\xe0x", "image/jpg; charset=x", "image/jpeg"),
        (b"GIF89a..", "IMAGE/GIF", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", "image/webp"),
        (b"\x00\x00\x00\x20ftypavif", "image/avif", "image/avif"),
        (PNG, "image/jpeg", ""),
        (PNG, "text/html", ""),
        (PNG, "", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", ""),
        (b"<html><script>alert(1)</script>", "image/png", ""),
        (b"RIFF\x00\x00\x00\x00WAVE", "image/webp", ""),
        (b"", "image/png", ""),
    ],
)
def test_type_by_bytes_and_by_name(body: bytes, stated: str, expected: str) -> None:
    """Both must say the same; what can hold a script is none."""
    assert picture_type(body, stated) == expected


async def test_picture_is_fetched_without_a_trace(context: Context, web: FakeWeb) -> None:
    """One request, without cookies or a referrer, also where robots.txt is for programs only."""
    web.robots("User-agent: *\nDisallow: /")
    web.page("/a.png", PNG, media_type="image/png")
    picture = await fetch_picture(context.fetcher, web.url("/a.png"))

    [seen] = web.asked("/a.png")
    assert (picture.body, picture.content_type) == (PNG, "image/png")
    assert {"referer", "cookie"}.isdisjoint(seen.headers)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/none", "answered 404"), ("/page", "no PNG"), ("/large", "cannot be fetched"), ("/away", "no PNG")],
)
async def test_what_is_no_picture_is_refused(context: Context, web: FakeWeb, path: str, reason: str) -> None:
    """Each with a sentence."""
    web.page("/page", "<script>alert(1)</script>", media_type="image/png")
    web.page("/large", PNG + bytes(MAX_PICTURE_BYTES), media_type="image/png")
    web.redirect("/away", "/page")
    with pytest.raises(NoPicture, match=reason):
        await fetch_picture(context.fetcher, web.url(path))


async def test_address_of_our_own_network_is_refused(settings: Settings, web: FakeWeb, redis: object) -> None:
    """A page cannot make the server ask what only the server can reach."""
    web.page("/a.png", PNG, media_type="image/png")
    async with open_context(settings.model_copy(update={"fetch_allowed_hosts": ()})) as guarded:
        with pytest.raises(NoPicture, match="cannot be fetched"):
            await fetch_picture(guarded.fetcher, web.url("/a.png"))

    assert web.requests == []
