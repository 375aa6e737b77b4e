"""Read the day that a line of text names, in any of the languages whose months are listed here."""

from __future__ import annotations

import re
from calendar import timegm
from datetime import date

FIRST_YEAR = 1995
"""Before that no page was published; a house, a film or a person was."""
_SPELLINGS = (
    "jan january januar jänner jän janvier janv enero ene gennaio gen janeiro januari stycznia styczeń sty января янв",
    "feb february februar février févr fév febrero febbraio fevereiro fev februari lutego luty lut февраля фев",
    "mar march märz mär mrz mars marzo março maart maa mrt marts marca marzec марта мар",
    "apr april avril avr abril abr aprile kwietnia kwiecień kwi апреля апр",
    "may mai mayo maggio mag maio mei maj maja мая май",
    "jun june juni juin junio giugno giu junho czerwca czerwiec cze июня июн",
    "jul july juli juillet juil julio luglio lug julho lipca lipiec lip июля июл",
    "aug august août aoû agosto ago augustus augusti sierpnia sierpień sie августа авг",
    "sep sept september septembre septiembre setiembre settembre set setembro września wrzesień wrz сентября сен сент",
    "oct october oktober okt octobre octubre ottobre ott outubro out października październik paź октября окт",
    "nov november novembre noviembre novembro listopada listopad lis ноября ноя нояб",
    "dec december dezember dez décembre déc diciembre dic dicembre dezembro desember des grudnia grudzień gru декабря"
    " дек",
)
MONTHS = {name: number for number, names in enumerate(_SPELLINGS, 1) for name in names.split()}

_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
# Not the minutes of `10:30 May 2021`, nor the number of a week.
_DAY = r"(?<!\d)(?<!\d:)(?<!week )(?P<day>\d{1,2})"
_NAME = r"(?P<name>[^\W\d_]{3,})\.?"
# `2021-03-05`, `2021年3月5日`; `05.03.2021`, `5/3/2021`; `5. März 2021`, `5 de marzo de 2021`, `05-Mar-2021`;
# `March 5th, 2021`.
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?<!\d)(?P<year>(?:19|20)\d\d)(?:\s?[年년.]\s?|[-/])(?P<month>\d{1,2})(?:\s?[月월.]\s?|[-/])(?P<day>\d{1,2})(?!\d)",
        rf"{_DAY}(\s?[./-])\s?(?:(?P<month>\d{{1,2}})|{_NAME})\2\s?{_YEAR}",
        rf"{_DAY}(?:(?:st|nd|rd|th|er|º),?|\.)?\s*(?:(?:of|de)\s)?{_NAME}[\s,/-]*(?:(?:of|del?)\s)?{_YEAR}",
        rf"{_NAME}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s{_YEAR}",
    )
)


def day_in_line(line: str) -> float | None:
    """Return the first day of a line as seconds since 1970 UTC; None if it names none.

    `5/3/2021` is the fifth of March, as nearly everywhere, unless no month has that number.
    """
    lowered = line.lower()
    found = sorted(
        (match.start(), number, match) for number, form in enumerate(_FORMS) for match in form.finditer(lowered)
    )
    return next((day for _, _, match in found if (day := _day(match.groupdict())) is not None), None)


def _day(parts: dict[str, str]) -> float | None:
    year, day = int(parts["year"]), int(parts["day"])
    month = MONTHS.get(parts["name"], 0) if parts.get("name") else int(parts["month"])
    if month > 12 and day <= 12:
        month, day = day, month
    try:
        return float(timegm(date(year, month, day).timetuple())) if year >= FIRST_YEAR else None
    except ValueError:
        return None
