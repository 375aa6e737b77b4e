"""The facets of a page that filters can ask for, and whether a page matches them."""

from __future__ import annotations

from core.search.models import Filters, IndexedPage


def matches(page: IndexedPage, filters: Filters) -> bool:
    """Whether the filters let this page through."""
    facets, date = set(page_facets(page)), page_date(page)
    if not all(facets.intersection(choices) for choices in required_facets(filters)):
        return False
    if filters.since_ts is None and filters.until_ts is None:
        return True
    is_late_enough = filters.since_ts is None or date >= filters.since_ts
    return date > 0 and is_late_enough and (filters.until_ts is None or date <= filters.until_ts)


def page_facets(page: IndexedPage) -> list[str]:
    """Return the facets of a page."""
    return [
        *(f"category:{name}" for name in page.categories),
        *(f"domain:{name}" for name in page.domains),
        f"host:{page.host}",
        f"language:{page.language}",
        f"type:{page.type}",
    ]


def required_facets(filters: Filters) -> list[list[str]]:
    """Return for each kind that is limited its choices, of which a page must have one."""
    kinds = {
        "category": filters.categories,
        "domain": filters.domains,
        "host": filters.hosts,
        "language": filters.languages,
        "type": filters.types,
    }
    return [[f"{kind}:{value}" for value in values] for kind, values in kinds.items() if values]


def page_date(page: IndexedPage) -> float:
    """Return the date that filters compare: of publication, else of the last change; 0 is unknown, matching none."""
    return page.published_ts or page.updated_ts
