"""Tell the language of a text by its letters and stop words: quick enough for every page and every query.

What a page states is often its template's word: `lang="en"` above German text. A model of English makes nothing of such
a page, so vectors are only used for pages in a language that the model knows. py3langid needs four times the CPU time
and 116 MB in every process that searches, and the stop words would still be needed for queries.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

UNKNOWN_SCRIPT = "und"
"""Other letters than Latin, and no statement (ISO 639's "undetermined")."""
SAMPLE_CHARS = 1_000
MIN_WORDS = 3
MIN_SHARE = 0.1
"""Fewer stop words than this, in number and as a share of all words, may be names, quotations and lists."""
FAMILY_SHARE = 0.6
"""Languages of one family share stop words: the stated one stands if it explains this much of the best."""
CLEAR = ((10, 0.12, 0.6), (15, 0.09, 0.45))
"""So many stop words, in number and as a share of all words, and at most so many of any other language. Between menus
there are fewer of them; then fewer of others may be among them."""

_STOP_WORDS = {
    "ca": "el els les dels amb per que una és són aquest també però com més va han",
    "cs": "se na je že to do pro jako ale jsou byl není podle také jeho který jsem",
    "da": "og at det er en til på som med de for ikke af den har et var jeg der blev fra",
    "de": "der die und das in den von zu ist mit des sich auf dem nicht ein eine als auch es an werden aus er hat "
    "wie wer was im für sind wird bei nach zum zur",
    "en": "the of and to in is that it for was on with as are be at by this from have or an not which they we you "
    "who what how when where has had but were their will would can does did do why",
    "es": "de la que el en los del se las por un para con no una su al lo es como más pero sus le ya este fue quién "
    "qué cómo cuándo",
    "et": "ja on ei see et ta kui mis ning oli aga või ka nii mida oma kes",
    "fi": "ja on ei että se hän oli kun mutta joka myös sen ovat mitä tai niin mukaan kuin kuka miten",
    "fr": "de la le et les des en un du une que est pour qui dans par sur pas au plus avec ce il sont cette ne se "
    "aux ont été était comment où",
    "hr": "je na se da za su od kao koji nije što bi ali će kako iz sve tko ima",
    "hu": "az és hogy nem is egy volt meg ez de csak van mint el már ki szerint által vagy mi",
    "id": "yang dan di untuk dengan dari ini itu dalam tidak pada adalah akan oleh ke bisa atau juga telah siapa apa",
    "it": "di il la che un per in non una sono del con da le si della dei nel alla come più gli anche ha al chi cosa",
    "lt": "ir kad yra su iš tai bet kaip buvo ne dėl prie apie bus savo",
    "lv": "un ir ka no uz ar par kas tas bet arī kā nav tika gan vai pēc",
    "nl": "de van het een en in is dat op te zijn met voor niet aan er om ook als maar dan bij wordt naar wie hoe "
    "heeft",
    "no": "og det er på til som en for av at med ikke de den har om fra et var jeg ble hvem hva",
    "pl": "na się nie do że to jest jak po od za przez jego są ale był oraz dla który czy kto",
    "pt": "de que do da em um para com não uma os no se na por mais as dos como mas ao ele das foi são quem",
    "ro": "de și în la cu pe care din nu un este că mai pentru să au fost ce se sunt lui cine",
    "sk": "na sa je že to do pre ako ale sú bol nie podľa tiež jeho ktorý som",
    "sl": "in je na se da za so ki pri kot pa tudi ne bi po kdo ali",
    "sv": "och att det som en på är av för med den till inte om ett han de har var från vi eller vem hur blev",
    "sw": "ya na wa kwa ni katika za la kuwa cha hii hiyo pia au kama yake nani",
    "tl": "ang ng sa na mga at ay ni si hindi para kung ito siya nang may mula sino",
    "tr": "ve bir bu da de için ile ne olarak daha çok gibi olan var ama kadar sonra en değil mi kim nasıl",
    "vi": "và của là có trong được cho không các một với người này đã những từ khi ông về ra ai",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}
for _language, _words in _STOP_WORDS.items():
    for _word in dict.fromkeys(_words.split()):
        _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _language)

_LATIN_WORD = re.compile(r"[a-z\u00df-\u024f\u1e00-\u1eff]{2,}")  # single letters are variables in code
_LETTER = re.compile(r"[^\W\d_]")
_ASCII_SIGNS = bytes(code for code in range(128) if not chr(code).isalpha())
_LATIN_LETTER = re.compile(r"[a-zA-Z\u00c0-\u024f\u1e00-\u1eff]")
_CJK_LETTER = re.compile(r"[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
CJK_WEIGHT, OTHER_WEIGHT = 3, 2
"""For how many Latin letters one of another script counts: Chinese and Japanese say with one what English says with
three, and commands, names and code are in Latin letters whatever the language. Of 180 sections of the Debian Reference
in Japanese and 239 in Chinese, 26 and 88 were not told where each letter counted once; now 1 and 2 are not."""


def language_by_stop_words(text: str, stated: str = "") -> str:
    """Return an ISO 639 code, `und` for letters other than Latin, or an empty string if nothing can be told."""
    sample = text[:SAMPLE_CHARS]
    if not sample.isascii() and _is_mostly_foreign(sample):
        return UNKNOWN_SCRIPT if stated in _STOP_WORDS or not stated else stated
    words = _LATIN_WORD.findall(sample.lower())
    counts = _count_languages(words)
    best, count = max(counts.items(), key=lambda pair: pair[1], default=("", 0))
    is_clear = count >= max(MIN_WORDS, MIN_SHARE * len(words)) and counts[stated] < FAMILY_SHARE * count
    return best if is_clear else stated


def _is_mostly_foreign(sample: str) -> bool:
    """Return whether most of what is said is in other letters than Latin."""
    ascii_bytes = sample.encode("ascii", "ignore")
    # Counted in a hundredth of the time, and all there is to know of most texts with an umlaut or a dash.
    if len(ascii_bytes.translate(None, _ASCII_SIGNS)) >= CJK_WEIGHT * (len(sample) - len(ascii_bytes)):
        return False
    latin, cjk = len(_LATIN_LETTER.findall(sample)), len(_CJK_LETTER.findall(sample))
    others = len(_LETTER.findall(sample)) - latin - cjk
    return CJK_WEIGHT * cjk + OTHER_WEIGHT * others > latin


def _count_languages(words: list[str]) -> Counter[str]:
    """Return how many of the words are stop words of each language."""
    return Counter(chain.from_iterable(filter(None, map(_LANGUAGES_OF.get, words))))


def clear_language(text: str) -> str:
    """Return the language of a text that leaves no doubt: running text, with the stop words of one language."""
    words = _LATIN_WORD.findall(text[: 4 * SAMPLE_CHARS].lower())  # in less, menus may be most of it
    counts = _count_languages(words).most_common(2)
    if not counts:
        return ""
    (best, count), rival = counts[0], counts[1][1] if len(counts) > 1 else 0
    is_clear = any(count >= max(least, share * len(words)) and rival <= most * count for least, share, most in CLEAR)
    return best if is_clear else ""
