"""Hints from class names: all patterns at once say what each says when it is asked alone."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.pages.class_name_hints import BITS, BODY, COMMENTS, GOOD, HINT_BITS, PATTERNS, name_bits
from core.pages.patterns_at_once import bits_at_once

OF_PAGES = """
ad-intromercial ad-m-banner ad-text ae-post-overlay archives-pager article--body article-byline article-nav
article-pager__what article-rail article-seo-box article-social article-teaser article-topper article__comments
article__image article__spark articlefooter--name articlepage-tags aside--right au-avatar author-meta author-photo
author_ad authorbox authorinfo b-mainnav__control bc-leader bdayh-post-header block-social blog-item-tags
blog_teaser_text body_overlay bodyslide box-intro box-popular box-shadow-light brand-footer btn-community btn-text
c-article__intro c-discussion c-list-categories c-nav-overlay c-teaser__lead category-nav closegdpr cms_teaser_title
colophon__list column-header comment-author-jbaxt comment_form comment_meta comment_no commentlink comments contact
content-item content__comments content__footer cookie cookiebannerhead cookiebuttons copyright-wrp date-and-time
disqus dm_article_share donationinfo dsq-widget-item e-teaser__header edit-image entry-comments entry-image-left
entry-share entry-summary entry__tags entry__title entrytext extra figure__media footer-widget footer__list-title
footer__nav-link footer__social footer_newsletter footerlogo-image footermeta form-textfield gallerytext
h-hide-toggle header-login header-text header__date header_mainnav hide-comments hide-for-print idle-related-post
image-overlay intro-image introtext isport-link js-cas-login js-main-menu js-mainmenu-item js-postfooter
kontextliste ks-byline-fb latest-blogs link-profile logincontent logo-and-ads m-header--main m-teaser--row
main-nav-button main-sidebar main-title mainfooter__navlink mainx-column media-body media-info media-teaser
media-title mediabox menu--footer menu-item-wideo menu-item__title menu-slide menu-tag menu-themes menu_hide
menulogin meta-list meta-nav--bottom metabar--social metabar-readnext mh-post-nav mh-post-nav-item mob-box-ad-c
modal-share mtncommenttext nav-ad-0f0c0 nav-brand nav-category__link nav-sidebar-wrap nav-text nav_image
navigation__sub news-related newsletter-title notembed o-footer__top other_shares overlaylink page-menu__toggles
paragraph paywall-modal photo-date pictureteaser popup--search popupmenu post-0media-0 post-author post-banner
promotion rdf-meta related-box right-ads-rail sart-content seearticle-info share-skype share_list sharebtn shareinfo
sidebar-section sidebar_box_heading sidebar_tab signup-btn signup-nav site-footer_link skyscraper slide-header
social-media-links social-share-box social-tooltip social_share_fb socialbutton socialmediabar sponsor_ad su-column
subscribe-blog tag-blogs tag-discourse tag-peabody teaser-body teasertag text-s time-twitter top-nav-heading tw-z-0
videostab w-nav-list widget-body widget-heading widget_meta widget_post widgetbet widgetplayer wpcom-button
wpcom-nav xrail-comments
"""
# Where a word ends, what may stand between its parts, and what looks like a name but is none.
NEAR_MISSES = """
ad ads ad- -ad -ad- xad adx header-ad ad:0 ad_0 éad ad·top commentary commentary-comment comments comment
comments-list comments_wrapper comments-wrap-0 comments-listing comments_section_ livefyre livefyre-app livefyres
dsq-comments disqus_thread disqus_threads respond responds -respond post-comments article-comments
my-article-comments commentlist hid hidden -hid hide hides x-hide xhide share shared sharedaddy sharedaddys _share_
shares 0share share.0 text texts text- article-text articletext_image article-text-meta art-body artbody
art__content art---content page-text-head page-text_foot entry-contentimage entry-content-entry-content-image
storybody story_body story-_body body-copy maincopy main-_entry field-name-body field--name-body field---name-body
field-body content_-body content-_body content__body nav subnav sub-nav topnavbar top-navbars mainnavigation navigat
navbox nav-x xnav date pubdate xdate -date update time times xtime -timex tag tags tagss xtags topic topics topical
info infos infoline infobox info-x infox list listing lists listings tab tabs table tabs-x dek deks dek- deck toc
toc- tocs bio bio_ bios read-more readmore readsmore more-on moreon most-read mostread next-up nextup nextpost
subheadline sub-headline sub--headline rich-text richtext column-right columnsecondary no-print noprint print-only
fact-box factbox stand-first standfirst sign-up signup skip-link skiplink bread-crumb breadcrumbs reading-time
section-name user-info screen-reader h-entry hentry p-author a0 - _ 0 :
"""

PARTS = sorted({part for pattern in PATTERNS.values() for part in re.findall(r"[a-z]+", pattern)})


def one_by_one(word: str) -> dict[str, bool]:
    """Ask each pattern alone, as it is written."""
    return {name: re.search(pattern, word) is not None for name, pattern in PATTERNS.items()}


def at_once(word: str) -> dict[str, bool]:
    """Ask all patterns. A number would be made shorter, and nothing else be changed."""
    bits = name_bits(word)
    return {name: bool(bits & bit) for name, bit in BITS.items()}


@pytest.mark.parametrize(
    "words", [OF_PAGES.split(), NEAR_MISSES.split(), PARTS], ids=["of pages", "near misses", "parts"]
)
def test_known_words(words: list[str]) -> None:
    """Words of real pages, near misses and all parts of the patterns, alone and joined to their neighbours."""
    joined = [first + between + second for first, second in pairwise(words) for between in ("", "-", "_", ":")]
    for word in words + joined:
        assert at_once(word) == one_by_one(word), word


@given(st.lists(st.sampled_from([*PARTS, *"-_:.é0sx"]), min_size=1, max_size=6).map("".join))
def test_words_of_parts(word: str) -> None:
    """Any word made of the parts of the patterns."""
    assert at_once(word) == one_by_one(word)


@given(st.sampled_from(sorted(PATTERNS)).flatmap(lambda name: st.from_regex(PATTERNS[name])))
def test_words_that_match(text: str) -> None:
    """Any text that a pattern matches, with anything around it."""
    for word in re.sub(r"[0-9]{2,}", "0", text.lower()).split():
        assert at_once(word) == one_by_one(word)


def test_names_of_several_words() -> None:
    """An element is what any of its words says, in any case and with any number."""
    assert name_bits("Post-83417 Entry-Content") == name_bits("post-83418") | name_bits("entry-content")
    assert name_bits("entry-content") & BODY
    assert name_bits("comments") & COMMENTS
    assert name_bits("x1 y2") == 0
    assert name_bits("article") == HINT_BITS["article"] | BITS["still likely"] | GOOD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("menu", 1),
        ("submenus", 1),
        ("men", 0),
        ("skiplink", 1),
        ("skip-link", 1),
        ("skip--link", 0),
        ("tag", 2),
        ("tags-x", 2),
        ("tagged", 0),
        ("my-ad", 4),
        ("yourtag", 2 + 4),
        ("our-tag", 2),
        ("madame", 0),
        ("menuet", 1 + 8),
        ("menuskip-linkmyad", 1 + 4),
    ],
)
def test_patterns_at_once(text: str, expected: int) -> None:
    """Strings inside of others, optional letters, ends of words and groups without a certain letter are all found."""
    patterns = {1: "menu|skip-?link", 2: "tags?(?:-|$)", 4: "(?:my|your)-?(?:ad|tag)", 8: "menuet|nuet"}
    assert bits_at_once(patterns, {4: ("ad", "tag")})(text) == expected


def test_a_pattern_without_needle() -> None:
    """A pattern that could never be found is refused at once."""
    with pytest.raises(KeyError):
        bits_at_once({1: "(?:my|your)"}, {})
