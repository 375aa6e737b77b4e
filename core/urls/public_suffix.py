"""The public suffix list: where registrable domains begin (https://publicsuffix.org/list/).

The file is that of the package `publicsuffixlist`; a test compares every rule with its answers. Its own class takes
10 ms of CPU to load the list, 40 with punycode, in every process that meets a host name; this takes 3.
"""

from __future__ import annotations

import pkgutil
from functools import cache

import ada_url


def private_suffix(host: str) -> str:
    """Return the public suffix of a host and the label before it; the host itself if it has none, or is no name."""
    # The list has international names in their own letters.
    labels = (ada_url.idna.decode(host) if "xn--" in host else host).split(".")
    if "" in labels:
        return host
    kept = _public_labels(labels) + 1
    return ".".join(host.split(".")[-kept:])


def _public_labels(labels: list[str]) -> int:
    """Return how many labels at the end are public: those of the longest rule, or one if no rule matches."""
    rules, count = _rules(), len(labels)
    for start in range(count):
        name, length = ".".join(labels[start:]), count - start
        if f"!{name}" in rules:
            return length - 1
        if f"*.{name}" in rules:  # of one label more, if the host has one
            return min(length + 1, count)
        if name in rules:
            return length
    return 1


@cache
def _rules() -> frozenset[str]:
    """Return the lines of the list. Comments are lines too: no host looks like one."""
    # With the private section: blogs on one platform have different owners.
    text = pkgutil.get_data("publicsuffixlist", "public_suffix_list.dat")
    assert text is not None
    return frozenset(text.decode().splitlines())
