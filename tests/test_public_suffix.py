"""Registrable domains by the public suffix list."""

from __future__ import annotations

import pytest
from publicsuffixlist import PublicSuffixList

from core.urls.public_suffix import private_suffix


def test_every_rule_means_what_the_library_says():
    """Of each rule, wildcard and exception, in letters and in punycode: the name itself, and names below it."""
    library = PublicSuffixList()
    rules = [rule.removeprefix("!").replace("*", "any") for rule in library._publicsuffix]
    assert len(rules) > 9_000
    hosts = [head + rule for rule in rules for head in ("", "a.", "b.a.", "c.b.a.")]
    # International names reach us in punycode only.
    wrong = [host for host in hosts if host.isascii() and private_suffix(host) != (library.privatesuffix(host) or host)]
    assert wrong == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("someone.github.io", "someone.github.io"),
        ("www.ck", "www.ck"),
        ("a.b.ck", "a.b.ck"),
        ("x.a.b.ck", "a.b.ck"),
        ("localhost", "localhost"),
        ("a.b.unknown", "b.unknown"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("www.xn--zzzzzzzz.com", "xn--zzzzzzzz.com"),
        ("a..example.com", "a..example.com"),
        ("", ""),
    ],
)
def test_private_suffix(host, expected):
    """One label more than the public suffix; what has no more, or is no name, stays whole."""
    assert private_suffix(host) == expected
