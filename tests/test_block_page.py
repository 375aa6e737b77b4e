"""Block pages (consent, login, tests for robots) are told from articles that only mention them."""

from __future__ import annotations

import pytest

from core.pages.block_page import describe_block_page
from tests.pages import PARAGRAPH, URL

CONSENT = "We and our 812 partners store and/or access information on a device. Accept all. Reject all."


@pytest.mark.parametrize(
    ("url", "title", "text"),
    [
        ("https://consent.google.com/m?continue=x", "Before you continue", "Sign in"),
        ("https://consent.yahoo.com/v2/collectConsent", "Yahoo", PARAGRAPH),
        ("https://guce.techcrunch.com/copyConsent", "", ""),
        ("https://mill.example/login?next=/a", "Log in", "User name, password"),
        ("https://login.mill.example/x", "Log in", "User name, password"),
        (URL, "Just a moment...", "mill.example Enable JavaScript and cookies to continue"),
        (URL, "Attention Required! | Cloudflare", "Sorry, you have been blocked"),
        (URL, "Access Denied", "You don't have permission. Reference #18.2d351ab8.1557333295.a4e16ab"),
        (URL, "", "Please verify you are a human by pressing the button."),
        (URL, "The Mill", CONSENT),
        (URL, "Die Mühle", "Wir und unsere 142 Partner benötigen Ihre Zustimmung, um fortzufahren."),
    ],
)
def test_block_pages(url: str, title: str, text: str) -> None:
    """Each kind of block page is known by its address, its title or its words."""
    assert describe_block_page(url, title, text)


@pytest.mark.parametrize(
    ("url", "title", "text"),
    [
        (URL, "Water at the wheel", PARAGRAPH),
        (URL, "Water at the wheel", f"{PARAGRAPH * 7} {CONSENT}"),
        (URL, "How to log in without a password", PARAGRAPH),
        (URL, "What 'Just a moment' really means", PARAGRAPH),
        (URL, "Access denied: how the river was closed", PARAGRAPH * 16),
        ("https://mill.example/news/login-troubles", "Login troubles", PARAGRAPH),
        ("https://loginov.example/a", "Loginov", PARAGRAPH),
        ("https://mill.example/login", "A very long story", PARAGRAPH * 20),
    ],
)
def test_articles(url: str, title: str, text: str) -> None:
    """No false alarm on texts about logins, robots and cookies."""
    assert describe_block_page(url, title, text) == ""
