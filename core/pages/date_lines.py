"""Tell lines that say when the page was published from lines in which a date is an example or a fact."""

from __future__ import annotations

import re

from core.pages.day_in_line import MONTHS

# A date beside one of these is what a function takes or a version had. A press release is dated all the same.
_OF_EXAMPLE = re.compile(
    r"\b(?:defaults?|e\.\s?g\.|such as|for (?:example|instance)|examples?|samples?|versions?|since|apis?|new in"
    r"|(?<!press )(?<!news )(?<!immediate )(?<!for )releases?d?|(?:added|changed|fixed|removed|introduced) in"
    r"|copyright|[a-z]+_(?:at|on|date|time)"
    r"|deprecated|formats?|values?|inputs?|outputs?|returns?|parameters?|expires?|z\. ?b\.|zum beispiel|beispiel"
    r"|standardwert|gültig|par exemple|p\. ?ej\.|por ejemplo)(?!\w)",
    re.IGNORECASE,
)
_PUBLISHED = (
    r"posted|published|written|created|submitted|date|news date|veröffentlicht|erstellt|datum|publiée?|publicado"
    r"|pubblicato|fecha|data|opublikowano|dodano|gepubliceerd|geplaatst|опубликовано"
)
_PUBLICATION = re.compile(rf"\b(?:{_PUBLISHED})\b", re.IGNORECASE)
_PUBLISHED_THEN_DATE = re.compile(
    rf"(?:^|[-–—|•·/(]\s?)\W*(?:(?:first|originally) )?(?:{_PUBLISHED})\b(?: (?:on|at|am|le|el|il|em|op)\b)?[\s:,]*"
    r"(?:\w+\.?,? ){0,2}\d",
    re.IGNORECASE,
)
# Days of the week in full and as they are shortened. Not by their beginnings: `Frida` is no Friday.
_DAYS_OF_WEEK = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun montag"
    " dienstag mittwoch donnerstag freitag samstag sonnabend sonntag mo di mi do fr sa so lundi mardi mercredi jeudi"
    " vendredi samedi dimanche lun mer jeu ven sam dim lunes martes miércoles jueves viernes sábado domingo mié mie"
    " jue vie sáb dom lunedì martedì mercoledì giovedì venerdì sabato domenica gio sab segunda terça quarta quinta"
    " sexta feira seg ter qua qui sex maandag dinsdag woensdag donderdag vrijdag zaterdag zondag din woe don vrij zat"
    " zon poniedziałek wtorek środa czwartek piątek sobota niedziela mandag tisdag tirsdag onsdag torsdag fredag lördag"
    " lørdag söndag søndag måndag понедельник вторник среда четверг пятница суббота воскресенье дня"
)
_WORDS_AROUND_DATES = (
    "on at of the by st nd rd th am pm a p m t z h o clock utc gmt est edt cst cdt mst mdt pst pdt cet cest bst ist uhr"
    " um den le el il de del di do da à a alle las les o em op om vom heure heures hrs г в 年 月 日 년 월 일 於"
    " originally news article press release pressemitteilung posted published written created submitted date"
    " dated dateline veröffentlicht erstellt datum publié publiée publicado pubblicato fecha data opublikowano dodano"
    " gepubliceerd geplaatst опубликовано stand"
)
_OF_DATES = frozenset((*MONTHS, *_DAYS_OF_WEEK.split(), *_WORDS_AROUND_DATES.split()))
_WORD = re.compile(r"[^\W\d_]+")
_LABEL = re.compile(r"([^\W\d_]+)\s*[:=]")
# `Ada Miller, 5 March 2021`, `2021-03-05 | Ada Miller`, not `Python 2021-03-05`.
_SET_APART = re.compile(r"([^\W\d_]+)\.?\s*(?:[,|/·•–—]|\s-\s)|(?:[,|/·•–—]|\s-)\s*([^\W\d_]+)")
_DIGIT = re.compile(r"\d")
_BYLINE = re.compile(rf"\W*(?:(?:{_PUBLISHED}) )?(?:by|von|par|por|di|door|av)\s", re.IGNORECASE)
_MAX_NAME_WORDS = 4


def is_line_of_example(line: str) -> bool:
    """Return whether words of the line say that a date in it is an example, a version's or a value."""
    return _OF_EXAMPLE.search(line) is not None


def says_when_published(line: str) -> bool:
    """Return whether a word for publication stands right before a date."""
    return _PUBLISHED_THEN_DATE.search(line) is not None


def names_publication(line: str) -> bool:
    """Return whether a word for publication is in the line."""
    return _PUBLICATION.search(line) is not None


def is_label_of_publication(label: str) -> bool:
    """Return whether this is nothing but a word for publication: `Date:`."""
    return _PUBLICATION.fullmatch(label.rstrip(": ")) is not None


def is_dateline(line: str, *, may_name_author: bool = True) -> bool:
    """Return whether nothing is in the line but a date, words for publication, and the name of an author or a place."""
    words = [word for word in _WORD.findall(line) if word.lower() not in _OF_DATES]
    if not words:
        return True
    if not may_name_author or len(words) > _MAX_NAME_WORDS or any(label in words for label in _LABEL.findall(line)):
        return False
    is_apart = any(word in words for pair in _SET_APART.findall(line) for word in pair)
    is_behind = words[0] not in _DIGIT.split(line, maxsplit=1)[0]
    return (is_apart or is_behind or _BYLINE.match(line) is not None) and not any(word[0].islower() for word in words)
