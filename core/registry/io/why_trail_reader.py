"""For `freshet why`: explain where a URL is in the pipeline, and why. Changes nothing.

`explain_url` takes a URL, a path, an item id or an article's uid. It sends no request and walks over no keys: what it
reads follows from the name, or from lists that are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from core import ids
from core.feeds.io import sample
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.item_queries import ItemQueries
from core.registry.io.why_content_reader import ContentReader, LinkFacts, RecordFacts
from core.registry.io.why_station_reader import KnownUrl, StationReader
from core.registry.why_address import (
    MOST_CHARS,
    CleanedAddress,
    address_station,
    clean_address,
    name_station,
    similar_urls,
    unknown_name_station,
)
from core.registry.why_verdict import NearMiss, Station, Trail, conclude
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.urls import file_paths
from core.urls.normalise import clean_url, normalise_url, public_url
from core.urls.secrets import redact, without_credentials
from core.urls.tracking_parameters import tracker_matcher

_ID = re.compile(r"(?:url|file)_[a-z2-7]{26}|[0-9a-f]{16}")
_PATH = re.compile(r"/|[A-Za-z]:[\\/]|\\\\|file:")
_BARE_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?:[/?#]|$)", re.IGNORECASE)
"""A URL that lacks its scheme, as people write it."""
_WEB = re.compile(r"https?:", re.IGNORECASE)


async def explain_url(client: Client, keys: Keys, settings: Settings, name: str, now: float) -> Trail:
    """Return the whole trail of a URL, path, item id or uid; changes nothing and sends no request."""
    return await TrailReader(connect.read_only(client, keys), keys, settings, now).explain(name)


class TrailReader:
    def __init__(self, client: Client, keys: Keys, settings: Settings, now: float) -> None:
        """`client` is one that quarantines nothing (`connect.read_only`)."""
        self._settings = settings
        self._now = now
        self._trackers = tracker_matcher(settings.tracking_param_prefixes)
        self._queries = ItemQueries(client, keys, settings.tracking_param_prefixes)
        self._content = ContentReader(client, keys, settings, now)
        self._reader = StationReader(client, keys, settings, now)

    async def explain(self, name: str) -> Trail:
        name = _encodable(name.strip())
        shown = redact(name[:MOST_CHARS])
        if len(name) > MOST_CHARS:
            return self._end(f"{shown[:300]}…", [address_station(clean_address(name))], is_known=False)
        if _ID.fullmatch(name) or _PATH.match(name):
            return await self._by_id_or_path(name, shown)
        return await self._of_url(f"https://{name}" if _BARE_HOST.match(name) else name, shown)

    # ── item ids, uids and paths ──

    async def _by_id_or_path(self, name: str, shown: str) -> Trail:
        resolved = await self._queries.resolve(name, Path("/"))
        item_id, uid = resolved.item_id, resolved.uid
        link = await self._content.link(uid) if uid else LinkFacts("")
        url = await self._url_of_link(link) if uid else ""
        record = await self._content.record(item_id)
        url = url or (record.item.fetch_url if record.item else "")
        if _WEB.match(url):
            return await self._of_url(url, shown, item_id)
        if not item_id and not link.is_known:
            if _ID.fullmatch(name):
                return self._end(shown, [unknown_name_station(name)], is_known=False)
            try:
                file = file_paths.file_identity(name)
            except ValueError as error:
                return self._end(shown, [address_station(CleanedAddress(name, refusal=str(error)))], is_known=False)
            url, item_id = file.address, ids.item_id("file", file.normalised)
        known = KnownUrl(url, item_id, link, record)
        stations, is_known = await self._reader.stations(known)
        return self._end(shown, [name_station(name, url), *stations], is_known=is_known, known=known)

    async def _url_of_link(self, link: LinkFacts) -> str:
        """Return the URL of a link by what is stored under its uid; an alias is found among those of its article."""
        if link.alias_of and not link.article:
            others = await self._content.other_urls(link.alias_of, "")
            return next((url for url in others if ids.article_uid(url) == link.uid), "")
        return link.article.get("url") or link.failure.get("url", "")

    # ── URLs ──

    async def _of_url(self, given: str, shown: str, item_id: str = "") -> Trail:
        allowed = (*self._settings.fetch_allowed_hosts, *sample.hosts(self._settings))
        address = clean_address(given, self._settings.tracking_param_prefixes, allowed)
        spellings = self._spellings(address)
        known = await self._known(address, spellings, item_id)
        first = address_station(address)
        feed = await self._reader.feed(spellings)
        if feed and not known.is_stored:
            return self._end(shown, [*([] if address.refusal else [first]), *feed], is_known=True, known=known)
        if address.refusal and not known.is_stored:
            return self._end(shown, [first], is_known=False, known=known, nearby=await self._near(address, known.url))
        stations, is_known = await self._reader.stations(known)
        nearby = () if is_known else await self._near(address, known.url)
        both = [first, *(feed[:1] if feed else ()), *stations]
        return self._end(shown, both, is_known=is_known, known=known, nearby=nearby)

    def _spellings(self, address: CleanedAddress) -> list[str]:
        """Return the URL as it may stand in a link set: from a feed, by hand, or from before a setting changed."""
        target = address.unwrapped or address.given
        cleaned = (public_url(target, self._trackers), clean_url(target), clean_url(target, self._trackers))
        tried = (address.clean, *cleaned, target, address.given)
        usable = (one for one in tried if isinstance(one, str) and one and field_parsing.is_text(one))
        return list(dict.fromkeys(usable))

    async def _known(self, address: CleanedAddress, spellings: Sequence[str], item_id: str) -> KnownUrl:
        """Return what is stored under the first spelling of which something is, and its record."""
        links = [await self._content.link(ids.article_uid(url)) for url in spellings]
        link = next((one for one in links if one.is_known), links[0] if links else LinkFacts(""))
        url = address.clean or next(iter(spellings), "")
        own_id = self._item_id(url)
        candidates = [item_id, link.article.get("item_id", ""), own_id]
        if link.alias_of and not link.article:
            candidates.append((await self._content.link(link.alias_of)).article.get("item_id", ""))
        for candidate in filter(None, candidates):
            record = await self._content.record(candidate)
            if record.item is not None:
                return KnownUrl(url, candidate, link, record, spellings)
        return KnownUrl(url, own_id, link, RecordFacts(), spellings)

    async def _near(self, address: CleanedAddress, clean: str) -> tuple[NearMiss, ...]:
        """Return similar URLs of which something is known."""
        similar = similar_urls(clean) if _WEB.match(clean) else {}
        if address.refusal == "credentials":
            bare = public_url(without_credentials(address.given), self._trackers)
            similar = {bare: "without its user name and password"} if isinstance(bare, str) else {}
        found: list[NearMiss] = []
        for url, difference in similar.items():
            link, item_id = await self._content.link(ids.article_uid(url)), self._item_id(url)
            if item_id and not await self._content.url_of_item(item_id):
                item_id = ""
            is_told = bool(item_id) and any(one.item_id == item_id for one in found)  # identity ignores a last slash
            if link.is_known or (item_id and not is_told):
                found.append(NearMiss(url, difference, item_id, link.uid if link.is_known else ""))
        return tuple(found)

    def _item_id(self, url: str) -> str:
        try:
            return ids.item_id("url", normalise_url(url, self._trackers))
        except ValueError:
            return ""

    # ── the end ──

    def _end(
        self,
        shown: str,
        stations: Sequence[Station],
        *,
        is_known: bool,
        known: KnownUrl | None = None,
        nearby: tuple[NearMiss, ...] = (),
    ) -> Trail:
        conclusion = conclude(stations, is_known=is_known)
        advice = [conclusion.advice] if conclusion.advice else []
        advice += [f"Known is {near.url} ({near.difference})." for near in nearby]
        return Trail(
            name=shown,
            outcome=conclusion.outcome,
            verdict=conclusion.verdict,
            stations=tuple(stations),
            advice=" ".join(advice),
            stopped_at=conclusion.station,
            url=known.url if known else "",
            uid=known.link.uid if known else "",
            item_id=known.item_id if known else "",
            nearby=nearby,
            asked_ts=self._now,
        )


def _encodable(name: str) -> str:
    """Return the name as it can be looked up: what no file name and no URL holds is replaced."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return field_parsing.text(name)
    return name
