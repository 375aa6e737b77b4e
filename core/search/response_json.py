"""A search response as plain values, for `scripts.search --json` and the HTTP API."""

from __future__ import annotations

from dataclasses import asdict

from core.registry.record import iso
from core.search.models import Query, SearchResponse, SearchResult
from core.search.results import freshness_factor


def response_json(response: SearchResponse, query: Query, *, explain_at: float | None = None) -> dict[str, object]:
    """Return a page of results, with the query's own words and paging.

    `explain_at`: the time of the search; each result then says what its score is made of.
    """
    return {
        "query": query.text,
        "total": response.total,
        "more": response.has_more,
        "page": query.page,
        "per_page": query.per_page,
        "by": response.by,
        "pending": response.pending,
        "showing_results_for": response.showing_results_for,
        "results": [
            _result(result) | ({} if explain_at is None else {"explain": _score(result, response, query, explain_at)})
            for result in response.results
        ],
    }


def _result(result: SearchResult) -> dict[str, object]:
    page, proof = asdict(result.page), result.verification
    del page["detected_language"], page["content_group"]  # for the index alone
    return {
        "id": page.pop("item_id"),
        "score": round(result.score, 4),
        **page,
        "verified_by": proof.verified_by,
        "verified_ts": proof.verified_ts,
        "verified_at": iso(proof.verified_ts) if proof.verified_ts > 0 else "",
        "checked_ts": proof.checked_ts,
        "passages": [asdict(passage) for passage in result.passages],
        "duplicates": list(result.duplicates),
        "aliases": list(result.aliases),
        "images": [dict(image) for image in result.images],
    }


def _score(result: SearchResult, response: SearchResponse, query: Query, now: float) -> dict[str, float]:
    best = result.passages[0]
    return {
        "lexical": best.lexical,
        "semantic": best.semantic,
        "lexical_weight": response.lexical_weight,
        "freshness": freshness_factor(result.page, query.freshness, now),
    }
