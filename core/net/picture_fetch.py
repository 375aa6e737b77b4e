"""Fetch the picture of an article for the dashboard, so that browsers send no request to other sites."""

from __future__ import annotations

from core.errors import FreshetError
from core.models import Deferred, Failed, FetchRequest
from core.net.fetcher import Fetcher
from core.pages.picture_type import PICTURE_TYPES, picture_type
from core.value_class import value_class

MAX_PICTURE_BYTES = 5_000_000
MAX_WAIT_SECONDS = 15.0
"""How long somebody waits for the domain's gate."""


class NoPicture(FreshetError):
    """There is no picture at this address, or none that may be shown."""


@value_class
class FetchedPicture:
    """A picture, and its content type by its own bytes."""

    body: bytes
    content_type: str


async def fetch_picture(fetcher: Fetcher, url: str) -> FetchedPicture:
    """Return the picture at a URL; raise NoPicture with the reason.

    Robots.txt is for what a program collects; this is one picture that a person asked for.
    """
    accept = {"Accept": ", ".join(PICTURE_TYPES)}
    request = FetchRequest(
        url, headers=accept, max_bytes=MAX_PICTURE_BYTES, respect_robots=False, max_wait_seconds=MAX_WAIT_SECONDS
    )
    answer = await fetcher.fetch(request)
    if isinstance(answer, Deferred):
        raise NoPicture(f"The picture's server must not be asked for {answer.wait_seconds:.0f} s: {answer.reason}.")
    if isinstance(answer, Failed):
        raise NoPicture(f"The picture cannot be fetched: {answer.text or answer.detail}")
    if answer.status != 200:
        raise NoPicture(f"The picture's server answered {answer.status}.")
    content_type = picture_type(answer.body, answer.header("content-type"))
    if not content_type:
        raise NoPicture("What is there is no PNG, JPEG, GIF, WebP or AVIF picture, so it is not shown.")
    return FetchedPicture(answer.body, content_type)
