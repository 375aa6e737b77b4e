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
# A host that logs users in may also explain how.
_PATH_OF_TEXTS = re.compile(
    r"/(?:docs?|documentation|guides?|help|manual|reference|blog|news|articles?)(?:/|$)", re.IGNORECASE
)
_CHALLENGE_TITLE = re.compile(
    r"just a moment\W*$|attention required! \| cloudflare"
    r"|access(?: to this page)? (?:has been )?denied(?=\W*$|\s*[|–-]\s)|are you a robot"
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
    r"|mit werbung (?:weiterlesen|und tracking)|accepter et (?:continuer|fermer)|continuer sans accepter"
    r"|asks for your consent to use your personal data"
    r"|by (?:clicking|pressing) [\"“']?accept(?: all)?(?: cookies)?[\"”']?,? you agree to the storing of cookies"
    r"|we value your privacy\b.{0,300}\b(?:cookies|consent|partners|personal data|accept|reject|agree)\b"
    r"|(?:your privacy, your choice|this (?:web)?site uses cookies)\b.{0,300}"
    r"\b(?:essential cookies|third parties|partners)"
    r"|we use cookies and similar|wir verwenden cookies und ähnliche",
)
# As a whole title, or as the first words of a text; in the middle, a story tells what to do before.
_CONSENT_START = re.compile(
    r"\W*(?:before you continue(?: to [\w.]+(?: search)?)?(?:\W*$|\W.{0,300}\b(?:sign in|cookies|consent|data)\b)"
    r"|bevor sie (?:zu|fortfahren)|avant de continuer|antes de continuar|prima di continuare)",
    re.DOTALL,
)
_REGION_TEXT = re.compile(
    r"unavailable (?:for|due to) legal reasons"
    r"|(?:our|this) (?:content|(?:web)?site|page|article)\b.{0,30}"
    r"\b(?:not (?:currently )?available|unavailable|blocked)"
    r"\b.{0,60}\b(?:european|eu|eea|your (?:region|country))\b"
    r"|\b(?:european|eu|eea|gdpr)\b.{0,120}(?:access cannot be granted"
    r"|(?:cannot|unable to) (?:grant|provide) (?:you )?access)"
    r"|access this (?:web)?site from a country",
)
_AGE_TEXT = re.compile(
    r"are you (?:over|at least) (?:18|21)\b[\w ]{0,20}\?|are you of legal (?:drinking )?age"
    r"|please (?:confirm|verify) (?:that you are (?:over|at least|of)|your age)"
    r"|you must be (?:at least |over )?(?:18|21)\b.{0,40}\bto (?:enter|view|access|visit) (?:this|our)\b",
)
# What is said only where the text ends before its end: that reading goes on for those who pay. A footer asks to keep in
# touch, and to log in to continue the discussion. One group of lines per language.
_PAYWALL_TEXT = re.compile(
    r"""(?:subscribe|sign\ up|register|log\ in|sign\ in|create\ (?:an?|your)\ (?:free\ )?account
        |become\ an?\ (?:paid\ )?(?:subscriber|member))
        (?:\ now|\ for\ free|\ today)?,?\ (?:to|and)\ (?:(?:continue|keep)\ (?:on\ )?reading
        |read\ (?:on\b|more\b(?!\ (?:stories|articles|news|posts|from|about|like))
        |(?:the|this)\ (?:rest|full|whole|entire|article|story|post))
        |(?:continue|keep\ going)(?=\W*$|\W*[.…]))
    |to\ (?:(?:continue|keep)\ reading|read\ (?:the\ (?:rest|full|whole|entire|complete)|this)\b[\w ]{0,30}),?
        \ (?:please\ )?(?:subscribe|log\ in|sign\ (?:in|up)|register|become\ an?\ (?:subscriber|member))
    |to\ (?:continue|keep)\ reading\b[^.!?]{0,60}?\b(?:start\ (?:an?|your)\ (?:free\ )?trial|log\ in\ to\ your\ account)
    |subscribe\ for\ all\ of|available\ (?:exclusively|only)\ to\ (?:[\w'’]+\ ){0,4}subscribers
    |(?:article|story|post|content)\b[^.!?]{0,40}\bavailable\ (?:(?:exclusively|only)\ to\ (?:[\w'’]+\ ){0,4}members
        |to\ (?:[\w'’]+\ ){0,4}(?:subscribers|members)\ only)
    |you\ have\ (?:0|no|zero)\ free\ (?:articles|stories)\ (?:remaining|left)
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
    |um\ weiterzulesen|weiterlesen\ mit\ (?:[\w+\ ]{1,30}(?:abo|plus)\b|\w{1,12}\+)|exklusiv\ für\ (?:unsere\ )?abonnent
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
_SCRIPT_TEXT = re.compile(
    r"(?:enable|turn on|activate|requires?|need) javascript"
    r"|javascript (?:is|must be|to be) (?:disabled|enabled|required)"
    r"|aktivieren sie (?:bitte )?javascript|javascript (?:aktivieren|ist deaktiviert)|activer javascript"
    r"|(?:active|activa|activar|habilite|habilita|habilitar) (?:el )?javascript|(?:abilita|attiva)(?:re)? javascript"
    r"|(?:ative|habilite) o javascript|javascript in te schakelen|włącz(?:yć)? (?:obsługę )?javascript"
    r"|включит[ье] javascript|javascriptを有効|(?:启用|啟用|开启) ?javascript",
)


def is_paywall(own_text: str) -> bool:
    """Return whether a text, or what stands around it, asks for money before it goes on."""
    return _PAYWALL_TEXT.search(own_text.lower()) is not None


def describe_wall_page(url: str, title: str, text: str, own_text: str | None = None) -> str:
    """Return in a few words what stands in front of the article; empty if nothing does.

    Args:
        url: where the redirects ended.
        text: the main text, or all text of a page without one.
        own_text: what the page says itself, where other stories on it may ask for money.
    """
    if len(text) > MAX_CHARS:
        return ""
    parts = split_url(url)
    is_blocking_host = parts and _BLOCKING_HOST.match(parts.host) and not _PATH_OF_TEXTS.search(parts.path)
    if is_blocking_host or (parts and _LOGIN_PATH.match(parts.path)):
        return "a consent or login page"
    if _CHALLENGE_TITLE.search(title) or (len(text) <= MAX_BANNER_CHARS and _CHALLENGE_TEXT.search(text)):
        return "a test for robots"
    if len(text) > MAX_BANNER_CHARS:
        return ""
    lowered = text.lower()
    if any(map(_CONSENT_START.match, (title.lower(), lowered))):
        return "a consent wall"
    if _REGION_TEXT.search(f"{title.lower()}: {lowered}"):
        return "a page for other countries"
    if is_paywall(text) and (own_text is None or is_paywall(own_text)):
        return "a paywall"
    sentences = {
        "a consent wall": _CONSENT_TEXT,
        "a question for the reader's age": _AGE_TEXT,
        "a page that needs JavaScript": _SCRIPT_TEXT,
    }
    return next((name for name, pattern in sentences.items() if pattern.search(lowered)), "")
