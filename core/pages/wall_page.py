"""Recognise pages that stand in front of the article: consent walls, logins, paywalls, bot checks.

Careful rather than complete: a wall page taken for an article is one bad article, an article taken for a wall page is
lost. So a page must be short, and say a sentence or have an address that only wall pages have.
"""

from __future__ import annotations

import re

from core.urls.normalise import split_url

MAX_CHARS = 1_500
"""No wall page we know says more; a longer page is an article that mentions one."""
MAX_BANNER_CHARS = 700
"""The limit for sentences that an article may also carry in its cookie banner."""

_BLOCKING_HOST = re.compile(
    r"(?:consent|cmp|myprivacy|privacywall|login|signin|auth|sso|idp|accounts?)\.|(?:[^.]+\.)*guce\."
)
_LOGIN_PATH = re.compile(
    r"/(?:log-?in|sign-?in|users?/sign_in|accounts?/log-?in|wp-login\.php|consent|cookie-?wall|privacy-?wall|captcha"
    r"|gdpr-consent|privacygate|sso)(?:[/.]|$)",
    re.IGNORECASE,
)
_CHALLENGE_TITLE = re.compile(
    r"just a moment\W*$|attention required! \| cloudflare|access(?: to this page)? (?:has been )?denied|are you a robot"
    r"|are you a human|pardon our interruption|robot check|human verification|bot verification|ddos-guard|captcha"
    r"|one moment, please|checking your browser|client challenge|security (?:check|verification)"
    r"|verify(?:ing)? you are human|please wait\W*$|request (?:blocked|rejected|unsuccessful)"
    r"|un momento\W*$|einen moment\W*$|un instant\W*$",
    re.IGNORECASE,
)
_CHALLENGE_TEXT = re.compile(
    r"enable javascript and cookies to continue|checking (?:if the site connection is secure|your browser before)"
    r"|verify(?:ing)? (?:that )?you(?:'re| are)(?: a)? (?:not a )?(?:human|robot)|unusual traffic from your"
    r"|complete the security check to access|performing security verification|needs to review the security of your"
    r"|press (?:&|and) hold to confirm|why have i been blocked|please enable (?:js|javascript|cookies) and"
    r"|incapsula incident id|reference #[0-9a-f]+\.[0-9a-f]+|your access to this (?:site|service) has been limited",
    re.IGNORECASE,
)
# All in lower case: the text is lowered first, as matching without regard to case takes several times as long.
_CONSENT_TEXT = re.compile(
    r"(?:we|wir|nous|noi|nosotros)(?:,)? (?:and|und|et|e|y) (?:our|unsere|nos|i nostri|nuestros) (?:\d+ )?"
    r"(?:partners?|partner|partenaires|socios)|store and/or access information on a device"
    r"|before you continue to|bevor sie (?:zu|fortfahren)|avant de continuer|antes de continuar|prima di continuare"
    r"|mit werbung (?:weiterlesen|und tracking)|accepter et (?:continuer|fermer)|continuer sans accepter"
    r"|asks for your consent to use your personal data"
    r"|by (?:clicking|pressing) [\"“']?accept(?: all)?(?: cookies)?[\"”']?,? you agree to the storing of cookies"
    r"|we value your privacy|we use cookies and similar|wir verwenden cookies und ähnliche",
)
# What is said only where the text ends before its end: that reading goes on for those who pay. A footer asks to keep in
# touch, and to log in to continue the discussion. One group of lines per language.
_PAYWALL_TEXT = re.compile(
    r"""(?:subscribe|sign\ up|register|log\ in|sign\ in|create\ an?\ (?:free\ )?account
        |become\ an?\ (?:paid\ )?(?:subscriber|member))
        (?:\ now|\ for\ free|\ today)?,?\ (?:to|and)\ (?:(?:continue|keep)\ (?:on\ )?reading
        |read\ (?:on\b|more\b|(?:the|this)\ (?:rest|full|whole|entire|article|story|post))
        |(?:continue|keep\ going)(?=\W*$|\W*[.…]))
    |to\ (?:(?:continue|keep)\ reading|read\ (?:the\ (?:rest|full|whole|entire|complete)|this)\b[\w ]{0,30}),?
        \ (?:please\ )?(?:subscribe|log\ in|sign\ (?:in|up)|register|become\ an?\ (?:subscriber|member))
    |(?:keep|continue)\ reading\b[\w ]{0,30}\ with\ an?\ (?:[\w-]+\ ){0,3}(?:free\ trial|subscription)
    |(?:start|with)\ (?:your|a)\ (?:[\w-]+\ )?free\ trial\ to\ (?:read|continue\ reading)
    |unlock\ (?:this|the\ (?:full|rest))\b\ ?(?:of\ this\ )?(?:article|story|post)
    |this\ (?:article|story|content|post)\ is\ (?:only\ )?(?:for|reserved\ for|available\ (?:only\ )?to|exclusive\ to)
        \ (?:our\ |paying\ |paid\ |premium\ )*(?:subscribers|members)
    |you(?:'ve|’ve|\ have)\ (?:reached|used|hit)\ (?:up\ )?(?:all\ )?(?:of\ )?your\ (?:[\w-]+\ ){0,2}(?:limit\ of\ )?
        (?:[\w-]+\ )?free\ (?:articles|stories)
    |this\ is\ a\ preview\ of\ subscription\ content|\bmember-only\ story\b
    |(?:dieser|der|dieses?)\ (?:artikel|text|beitrag|inhalt)\ ist\ (?:nur\ |exklusiv\ )?für\ (?:unsere\ )?
        (?:abonnent|digital-?abo)
    |(?:abo\ abschließen|abonnieren|anmelden|registrieren),?\ (?:und|um)\ weiter(?:zu)?lesen
    |um\ weiterzulesen|weiterlesen\ mit\ (?:[\w+ ]{1,30}abo|\w{1,12}\+)
    |(?:cet\ article|ce\ contenu)\ est\ (?:réservé|exclusif)|il\ vous\ reste\ [\d,.\ ]+%\ de\ cet\ article
    |(?:article|contenu|suite\ est)\ réservée?\ aux\ abonnés
    |abonnez-vous\ pour\ (?:lire\b|continuer\ (?:à\ lire|la\ lecture|votre\ lecture)
        |accéder\ à\ (?:cet|l['’]|la\ suite))
    |suscr[ií]b(?:ete|ase)\ para\ (?:seguir\ leyendo|continuar\ (?:leyendo|la\ lectura)|leer)
    |(?:contenido|artículo)\ (?:exclusivo|solo)\ para\ (?:suscriptores|abonados)
    |abbonati\ per\ (?:continuare\ (?:a\ leggere|la\ lettura)|leggere)
    |(?:contenuto|articolo)\ riservato\ agli\ abbonati
    |assine\ para\ (?:continuar\ (?:lendo|a\ ler|a\ leitura)|ler)
    |(?:conteúdo|matéria|artigo)\ exclusiv[oa]\ para\ (?:assinantes|subscritores)
    |(?:word|neem)\ (?:een\ )?abonn\w+\ om\ (?:verder\ te\ lezen|dit\ (?:artikel|verhaal))
    |verder\ lezen\?\ (?:word|neem|log)|alleen\ voor\ abonnees
    |artykuł\ (?:dostępny\ )?(?:tylko\ )?dla\ (?:prenumeratorów|subskrybentów)
    |wykup\ dostęp,?\ aby\ (?:czytać|przeczytać)
    |för\ att\ läsa\ (?:vidare|hela)|bli\ prenumerant\ för\ att\ (?:läsa|fortsätta\ läsa)
    |for\ at\ læse\ videre|kun\ for\ abonnenter
    |(?:оформите|купите)\ подписку,?\ чтобы\ (?:читать|прочитать|дочитать|продолжить\ чтение)
    |(?:материал|статья)\ доступ\w+\ только\ (?:для\ )?подписчик
    |会員限定|続きを読むには|(?:订阅|登录|登入|訂閱)[后後]?(?:即可)?(?:继续|繼續)?(?:阅读|閱讀|查看)""",
    re.VERBOSE,
)
# In the JSON-LD of the page, by which publishers tell search engines of their paywall.
_NOT_FREE = re.compile(r"\"isAccessibleForFree\"\s*:\s*\"?(?:false|no)\b", re.IGNORECASE)
_SCRIPT_TEXT = re.compile(
    r"(?:enable|turn on|activate|requires?|need) javascript"
    r"|javascript (?:is|must be|to be) (?:disabled|enabled|required)"
    r"|aktivieren sie (?:bitte )?javascript|javascript (?:aktivieren|ist deaktiviert)|activer javascript"
    r"|(?:active|activa|activar|habilite|habilita|habilitar) (?:el )?javascript|(?:abilita|attiva)(?:re)? javascript"
    r"|(?:ative|habilite) o javascript|javascript in te schakelen|włącz(?:yć)? (?:obsługę )?javascript"
    r"|включит[ье] javascript|javascriptを有効|(?:启用|啟用|开启) ?javascript",
)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_MAX_SEARCHED_CHARS = 1_000_000


def describe_paywall(html: str) -> str:
    """Return in a few words what ends a very short text; empty if the page seems to be free.

    For pages with next to no main text: the sentence that asks stands beside the text, not in it.
    """
    words = " ".join(_MARKUP.sub(" ", html[:_MAX_SEARCHED_CHARS]).split())
    return "a paywall" if _NOT_FREE.search(html) or _PAYWALL_TEXT.search(words.lower()) else ""


def describe_wall_page(url: str, title: str, text: str) -> str:
    """Return in a few words what stands in front of the article; empty if nothing does.

    Args:
        url: where the redirects ended.
        text: the main text, or all text of a page without one.
    """
    if len(text) > MAX_CHARS:
        return ""
    parts = split_url(url)
    if parts and (_BLOCKING_HOST.match(parts.host) or _LOGIN_PATH.match(parts.path)):
        return "a consent or login page"
    if _CHALLENGE_TITLE.search(title) or (len(text) <= MAX_BANNER_CHARS and _CHALLENGE_TEXT.search(text)):
        return "a test for robots"
    if len(text) > MAX_BANNER_CHARS:
        return ""
    lowered = text.lower()
    sentences = {
        "a consent wall": _CONSENT_TEXT,
        "a paywall": _PAYWALL_TEXT,
        "a page that needs JavaScript": _SCRIPT_TEXT,
    }
    return next((name for name, pattern in sentences.items() if pattern.search(lowered)), "")
