"""Wall pages (consent, login, tests for robots) are told from articles that only mention them."""

from __future__ import annotations

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages.extract import extract_page
from core.pages.wall_page import describe_wall_page
from tests.pages import PARAGRAPH, URL, page

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
        (URL, "Before you continue to Google", "Sign in. We use data to deliver services."),
        (URL, "", "Before you continue to Google Search. We use data to deliver services."),
        (URL, "The Mill", "Your privacy, your choice. We use essential cookies to make our site work."),
        (URL, "The Mill", "This site uses cookies. We and selected third parties use them for measurement."),
        (URL, "The Mill", "We value your privacy. Accept all. Reject all."),
        (URL, "451: Unavailable for legal reasons", "We recognize you are visiting from the European Union."),
        (URL, "The Mill", "451: Unavailable due to legal reasons. We cannot grant access at this time."),
        (URL, "The Mill", "Our site is currently unavailable to visitors from the European Union."),
        (URL, "The Mill", "You access this website from a country of the European Economic Area (EEA)."),
        (URL, "The Mill", "Are you over 18? Yes. No."),
        (URL, "The Mill", "You must be 21 years or older to enter this site."),
        (URL, "Water", "Subscribe to continue reading. Already a subscriber? Log in."),
        (URL, "Water", "This article is for subscribers only."),
        (URL, "Wasser", "Dieser Artikel ist nur für Abonnenten. Jetzt anmelden und weiterlesen."),
        (URL, "L'eau", "Il vous reste 75 % de cet article à lire. La suite est réservée aux abonnés."),
        (URL, "El agua", "Suscríbete para seguir leyendo. Contenido exclusivo para suscriptores."),
        (URL, "L'acqua", "Contenuto riservato agli abbonati."),
        (URL, "Água", "Assine para continuar lendo."),
        (URL, "Water", "Word abonnee om verder te lezen."),
        (URL, "Вода", "Оформите подписку, чтобы читать дальше."),
        (URL, "水", "この記事は会員限定です。続きを読むにはログインしてください。"),
        (URL, "水", "订阅后继续阅读全文"),
        (URL, "App", "You need to enable JavaScript to run this app."),
        (URL, "App", "Bitte aktivieren Sie JavaScript, um diese Seite zu sehen."),
        (URL, "App", "Veuillez activer JavaScript pour continuer."),
        (URL, "Die Mühle", "Wir und unsere 142 Partner benötigen Ihre Zustimmung, um fortzufahren."),
    ],
)
def test_wall_pages(url: str, title: str, text: str) -> None:
    """Each kind of wall page is known by its address, its title or its words."""
    assert describe_wall_page(url, title, text)


@pytest.mark.parametrize(
    ("url", "title", "text"),
    [
        (URL, "Water at the wheel", PARAGRAPH),
        (URL, "Water at the wheel", f"{PARAGRAPH * 7} {CONSENT}"),
        (URL, "How to log in without a password", PARAGRAPH),
        (URL, "What 'Just a moment' really means", PARAGRAPH),
        (URL, "Access denied: how the river was closed", PARAGRAPH * 16),
        ("https://mill.example/news/login-troubles", "Login troubles", PARAGRAPH),
        (URL, "Newsletters", f"{PARAGRAPH} Subscribe to our newsletter. The club is for members."),
        (URL, "A new language", f"{PARAGRAPH} It compiles to JavaScript, which every browser runs."),
        ("https://loginov.example/a", "Loginov", PARAGRAPH),
        ("https://mill.example/login", "A very long story", PARAGRAPH * 20),
        (URL, "Access denied: bats stay uncounted", PARAGRAPH),
        (URL, "Cameras", f"{PARAGRAPH} We value your privacy, said the mayor."),
        (URL, "Borders", f"{PARAGRAPH} Show your papers before you continue to the bridge."),
        (URL, "Before you continue to paint: five hints", PARAGRAPH),
        (URL, "Pools", f"{PARAGRAPH} The pool is available only to members of the club."),
        (URL, "Phones", f"{PARAGRAPH} The service is not available in the EU, the company said."),
        (URL, "Minors", f"{PARAGRAPH} Sites must verify your age, says the new law of the European Union."),
        (URL, "Bars", f"{PARAGRAPH} You must be 18 to buy beer at the mill."),
        ("https://auth.mill.example/docs/tokens", "Tokens", PARAGRAPH),
    ],
)
def test_articles(url: str, title: str, text: str) -> None:
    """No false alarm on texts about logins, robots and cookies."""
    assert describe_wall_page(url, title, text) == ""


def test_stub_of_a_paid_article() -> None:
    """Two lines of text before a request to pay are no article, also where the request is not part of the text."""
    wall = '<div class="paywall-offer"><p>Subscribe to continue reading.</p><a href="/pay">Offers</a></div>'
    stub = f"<html lang=en><body><article><p>{PARAGRAPH}</p></article>{wall}</body></html>".ljust(300).encode()
    answer = extract_page(stub, URL, "text/html").result
    assert isinstance(answer, Failed)
    assert (answer.code, answer.detail) == (FailCode.EMPTY, FailDetail.BLOCKED)
    assert "paywall" in answer.text
    assert isinstance(extract_page(page(wall), URL, "text/html").result, Document), "the whole text is there"


def stub_with(words: str, head: str = "", place: str = "div") -> bytes:
    article = f"<article><h1>Water</h1><p>{PARAGRAPH}</p></article><{place}><p>{words}</p></{place}>"
    return f"<html lang=en><head><title>Water</title>{head}</head><body>{article}</body></html>".ljust(300).encode()


@pytest.mark.parametrize(
    "words",
    [
        "Subscribe now to read this article.",
        "This post is for paid subscribers",
        "Keep reading with a 7-day free trial",
        "You've reached your limit of free articles.",
        "You have reached your monthly limit of free articles.",
        "To read the full story, subscribe or sign in.",
        "To continue reading, become a member",
        "Become a subscriber to read on",
        "This is a preview of subscription content, log in via an institution.",
        "Member-only story",
        "Article réservé aux abonnés",
        "Dieser Inhalt ist exklusiv für Abonnenten",
        "Jetzt weiterlesen mit S+",
        "This story is available exclusively to Business Insider subscribers.",
        "The author made this story available to Medium members only.",
        "Jetzt weiterlesen mit SZ Plus",
        "Weiterlesen mit WELTplus",
        "Exklusiv für Abonnenten",
        "Create your free account to continue reading",
        "To continue reading this article, start a free trial",
        "To continue reading … log in to your account",
        "Subscribe for all of The Times",
        "You have 0 free articles remaining",
    ],
)
def test_words_that_end_a_stub(words: str) -> None:
    """A short text beside which reading on is offered for money is a stub."""
    answer = extract_page(stub_with(words), URL, "text/html").result
    assert isinstance(answer, Failed)
    assert answer.detail == FailDetail.BLOCKED


@pytest.mark.parametrize(
    "words",
    [
        "Newsletter: subscribe to keep up to date with our news.",
        "Sign up to keep in touch",
        "Log in to continue the discussion",
        "Sign up and keep informed",
        "Create a free account to keep track of your favourites",
        "Abonnez-vous pour continuer à nous soutenir",
        "Suscríbete para seguir nuestras noticias",
        "Sign in to read more stories",
    ],
)
def test_footers_of_short_articles(words: str) -> None:
    """A short article is kept, whatever its footer wants the reader to join."""
    assert isinstance(extract_page(stub_with(words, place="footer"), URL, "text/html").result, Document)
    assert isinstance(extract_page(stub_with(words), URL, "text/html").result, Document)


def test_a_paywall_that_is_a_link() -> None:
    """In a box that is named so, the link asks for this story."""
    wall = '<div class="paywall"><a href="/pay">Jetzt weiterlesen mit SZ Plus</a></div>'
    body = f"<article><h1>Water</h1><p>{PARAGRAPH}</p>{wall}</article>"
    html = f"<html lang=de><head><title>Water</title></head><body>{body}</body></html>".ljust(300).encode()
    answer = extract_page(html, URL, "text/html").result
    assert isinstance(answer, Failed)
    assert answer.detail == FailDetail.BLOCKED


@pytest.mark.parametrize(
    "around",
    [
        "<article><h3>Wheels</h3><p>This article is for subscribers.</p></article>",
        '<div class="teaser"><p>This article is for subscribers.</p></div>',
        '<div><h3><a href="/b">Wheels</a></h3><p>This article is for subscribers.</p></div>',
        '<div><a href="/b"><h3>Wheels</h3></a><p>This article is for subscribers.</p></div>',
        "<ul><li>This article is for subscribers.</li></ul>",
        "<aside><p>This article is for subscribers.</p></aside>",
        "<footer><p>This article is for subscribers.</p></footer>",
        '<div><a href="/login">Sign in to continue reading</a></div>',
    ],
)
@pytest.mark.parametrize("main_text", [True, False])
def test_walls_of_other_stories(around: str, main_text: bool) -> None:
    """What a teaser, a link or a footer says of another story takes nothing from a short one."""
    for tag in ("article", "main"):
        body = f"<{tag}><h1>Water</h1><p>{PARAGRAPH}</p></{tag}>{around}"
        html = f"<html lang=en><head><title>Water</title></head><body>{body}</body></html>".ljust(300).encode()
        assert isinstance(extract_page(html, URL, "text/html", main_text=main_text).result, Document)


def test_not_free_by_its_own_word() -> None:
    """What the page tells search engines counts for a short text, not for a whole one."""
    word = '<script type="application/ld+json">{"@type": "NewsArticle", "isAccessibleForFree": %s}</script>'
    assert isinstance(extract_page(stub_with("", word % "false"), URL, "text/html").result, Failed)
    assert isinstance(extract_page(stub_with("", word % "true"), URL, "text/html").result, Document)
    assert isinstance(extract_page(stub_with("", word % '"False"'), URL, "text/html").result, Failed)
    foreign = (word % "false").replace("ld+json", "json") + word % "true"
    assert isinstance(extract_page(stub_with("", foreign), URL, "text/html").result, Document), "data of a script"
    assert isinstance(extract_page(page(word % "false"), URL, "text/html").result, Document), "the whole text is there"


@pytest.mark.parametrize(
    "words",
    [
        "The Mill asks for your consent to use your personal data. Consent. Manage options.",
        "Cookies help us. By clicking Accept you agree to the storing of cookies on your device.",
    ],
)
def test_consent(words: str) -> None:
    """Two more sentences of consent walls."""
    assert describe_wall_page(URL, "The Mill", words) == "a consent wall"
