"""What filters can ask of a page, and whether it fits."""

from __future__ import annotations

from core.search.io.protocols import Filters, Page


def fits(page: Page, filters: Filters) -> bool:
    """Do the filters let this page through?"""
    facets, date = set(facets_of(page)), date_of(page)
    if not all(facets.intersection(choices) for choices in facet_choices(filters)):
        return False
    if filters.since_ts is None and filters.until_ts is None:
        return True
    is_late_enough = filters.since_ts is None or date >= filters.since_ts
    return date > 0 and is_late_enough and (filters.until_ts is None or date <= filters.until_ts)


def facets_of(page: Page) -> list[str]:
    """What filters can ask of a page."""
    return [
        *(f"category:{name}" for name in page.categories),
        *(f"domain:{name}" for name in page.domains),
        f"host:{page.host}",
        f"language:{page.language}",
        f"type:{page.type}",
    ]


def facet_choices(filters: Filters) -> list[list[str]]:
    """For each kind that is limited its choices, of which a page must have one."""
    kinds = {
        "category": filters.categories,
        "domain": filters.domains,
        "host": filters.hosts,
        "language": filters.languages,
        "type": filters.types,
    }
    return [[f"{kind}:{value}" for value in values] for kind, values in kinds.items() if values]


def date_of(page: Page) -> float:
    """What date filters compare: when it was published, else when it last changed; 0 is unknown and never matches."""
    return page.published_ts or page.updated_ts
