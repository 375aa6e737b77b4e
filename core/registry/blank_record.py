"""Make the record of an item that was never visited: every field, so that no stale one survives."""

from __future__ import annotations

from core import ids
from core.registry.page_visit import NO_REDIRECTS
from core.registry.record import BASE_INTERVAL_SECONDS, Status, content_group, iso
from core.urls.normalise import display_url, host_of

_EMPTY_FIELDS = (
    *("parentPageId", "httpEtag", "httpLastModified", "validatorsUrl", "httpCanonicalUrl"),
    *("fileEtag", "fileLastModified", "fileLength", "fileContentType", "contentHash", "textHash", "bodyHash"),
    *("language", "mimeType", "extractorVersion", "articleUid", "articleUrl", "articleCategories", "aliasOf"),
    *("lastIndexedDocId", "indexedHash", "lastChecked", "lastChanged", "lastIndexed", "errorMessage", "lockedUntil"),
    *("sources", "verifiedBy", "verifiedTs"),
)
_ZERO_FIELDS = (
    *("reindexGeneration", "processedGeneration", "httpContentLength", "httpStatusCode", "imageCount"),
    *("crawlAttempts", "consecutiveFailures", "unchangedStreak", "conditionalStreak", "missingChecks"),
)
_BLANK = {**dict.fromkeys(_EMPTY_FIELDS, ""), **dict.fromkeys(_ZERO_FIELDS, "0")}


def blank_record(
    normalised: str,
    address: str,
    now: float,
    *,
    item_type: str = "url",
    strategy: str = "host",
    display: str = "",
    item_id: str = "",
) -> dict[str, str]:
    """Return every field of a record, as of an item that was never visited; `item_id` if it is not the source's."""
    own = own_fields(normalised, address, item_type=item_type, strategy=strategy, display=display, item_id=item_id)
    return blank_fields(now) | own


def blank_fields(now: float) -> dict[str, str]:
    """Return the fields that all items have in common which were never visited and are known since now."""
    since = iso(now)
    return {
        **_BLANK,
        "status": str(Status.PENDING),
        "reindexRequested": "false",
        "httpRedirectChain": NO_REDIRECTS,
        "httpRobotsAllowed": "true",
        "firstSeen": since,
        "nextCrawlAt": since,
        "crawlIntervalSeconds": str(BASE_INTERVAL_SECONDS),
    }


def own_fields(
    normalised: str,
    address: str,
    *,
    item_type: str = "url",
    strategy: str = "host",
    display: str = "",
    item_id: str = "",
) -> dict[str, str]:
    """Return the fields that say which item it is; `item_id` if it is not the source's."""
    item_id = item_id or ids.item_id(item_type, normalised)
    return {
        "id": item_id,
        "type": item_type,
        "PartitionKey": partition(normalised, item_type, strategy),
        "RowKey": item_id.partition("_")[2],
        "normalizedSource": normalised,
        "displaySource": display or (display_url(address) if item_type == "url" else address),
        "sourceHost": host_of(normalised),
        "fetchUrl": address,
        "contentGroupId": content_group(normalised),
    }


def partition(normalised: str, item_type: str, strategy: str) -> str:
    """Return the PartitionKey: a URL's host, or its scheme if the strategy says so; of a file the kind of storage."""
    scheme = normalised.partition(":")[0]
    if item_type == "url":
        return host_of(normalised) if strategy == "host" else scheme
    if ".blob.core." in host_of(normalised):
        return "blob"
    return "share" if normalised.startswith("//") else "file"
