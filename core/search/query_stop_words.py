"""Stop words of search queries: articles, pronouns and question words, which say nothing of the subject.

They are indexed, since a quoted phrase may hold them, but neither looked for nor marked on their own. Lists are longer
than those of core/pages/language_by_stop_words.py, which tell languages apart and must not overlap much.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

_STOP_WORDS = {
    "da": "af alle at blev blive bliver da de dem den denne der deres det dette dig din disse dog du efter eller en "
    "er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem hvis hvor hvordan hvorfor i "
    "ikke ind jeg kan man med meget men mig min mod ned nogle nu når og også om op os over på selv sig sin "
    "skal skulle som så til ud under var vi vil ville vor være været",
    "de": "aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist "
    "da damit dann das dass dein dem den denn der des dessen die dies diese diesem diesen dieser dieses doch "
    "dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen gibt hab habe haben hat "
    "hatte hatten hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist ja jede jedem "
    "jeden jeder jedes kann kein keine können könnte man manche mein meine meinem meinen meiner mich mir mit "
    "muss müssen nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner selbst sich "
    "sie sind so soll sollte sondern um und uns unser unter viel vom von vor wann war waren warum was weil "
    "welche welchem welchen welcher welches wenn wer werde werden wie wieder wieso will wir wird wo wofür "
    "womit worden wurde wurden würde zu zum zur über",
    "en": "a about above again all also am an and any are aren as at be because been being below between both but "
    "by can could couldn d did didn do does doesn doing don down during each few for from further had has "
    "have having he her here hers him his how i if in into is isn it its itself just ll m may me might mine "
    "more most must my myself no nor not of off on once only or other our ours out over own re s same shall "
    "she should so some such t than that the their theirs them themselves then there these they this those "
    "through to too under until up upon us ve very was wasn we were weren what when where which while who "
    "whom whose why will with won would you your yours yourself",
    "es": "a al algo alguna algunas alguno algunos ante antes aquí así aunque cada como con contra cual cuál cuáles "
    "cuando cuándo cuánto cuántos cómo de del desde donde dónde dos durante e el ella ellas ellos en entre "
    "era eran es esa esas ese eso esos esta estas este esto estos está están fue fueron ha hace hacer hacia "
    "han hasta hay la las le les lo los me mi mis muy más nada ni no nos nosotros o os otra otras otro otros "
    "para pero poco por porque puede pueden puedo qué que quien quién quiénes se sea ser si sido sin sobre "
    "son su sus sí también tan te tiene tienen todo todos tu tus tú un una unas uno unos y ya yo él",
    "fr": "a ai au aucun aussi autre aux avec avoir c ce cela celle celui ces cet cette ceux chaque ci combien comme "
    "comment d dans de depuis des dont du elle elles en entre es est et eux faire fait fut il ils j je jusqu "
    "l la le les leur leurs lui là m ma mais me mes moi mon même n ne ni nos notre nous on ont ou où par pas "
    "peut peuvent plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se sera "
    "ses si son sont sous sur t ta te tes toi ton tous tout toute toutes très tu un une vers vos votre vous y "
    "à été être était étaient",
    "it": "a ad agli ai al alla alle allo anche c che chi ci coi col come con cosa cui da dagli dai dal dalla dalle "
    "dallo degli dei del dell della delle dello di dove e ed era erano essere gli ha hanno ho i il in io l la "
    "le lei li lo loro lui ma mi mia mio ne negli nei nel nell nella nelle no noi non nostra nostro o per "
    "perché più può qual quale quali quando quanto quella quelle quelli quello questa queste questi questo "
    "qui quindi se sei senza si sia siamo sono sta su sua sue sugli sui sul sulla sulle suo suoi tra tu tua "
    "tuo tutti tutto un una uno vi voi è",
    "nl": "aan al alles als altijd ander andere ben bij daar dan dat de der deze die dit doch doen door dus een en "
    "er ge geen haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen "
    "maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat ons onze ook op over reeds te "
    "tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we wel welke werd "
    "wezen wie wij wil worden wordt zal ze zich zij zijn zo zonder zou",
    "no": "alle at av bare begge ble blei bli blir da de deg dem den denne der deres det dette di din disse du "
    "eller en er et for fra før ha hadde han hans har hennes her hun hva hvem hver hvilke hvilken hvis hvor "
    "hvordan hvorfor i ikke inn ja jeg kan kom kunne man mange med meg men min mitt mot mye ned noe noen nå "
    "når og også om opp oss over på seg selv si sin sitt skal skulle slik som så til um under ut var ved vi "
    "vil ville vår være vært å",
    "pt": "a ao aos aquela aquele aquilo as até com como da das de dela dele delas deles depois do dos e ela elas "
    "ele eles em entre era eram essa esse esta estas este estes está estão eu foi foram havia há isso isto já "
    "la lhe mais mas me mesmo meu minha muito na nas nem no nos nossa nosso num numa não nós o onde os ou "
    "para pela pelas pelo pelos pode podem por porque porquê qual quais quando quanto que quem quê se sem ser "
    "seu seus sobre sua suas são só também te tem teu tinha tu tua tão têm um uma umas uns você vocês à às é",
    "ru": "а без более бы был была были было быть в вам вас весь во вот все всё всего всех вы где да даже для до "
    "его ее её ей если есть еще ещё же за здесь и из или им их к как какая какие какой каким ко когда кого "
    "кто куда ли либо между меня мне может можно мой мы на над надо нас наш не него нет нее ни них но о об "
    "один он она они оно от очень по под почему при про с сам свой свою себя сколько со так также такой там "
    "те тем то того тоже той только том тот у уже хотя чего чей чем что чтобы чьё эта эти это этого этой этом "
    "этот я",
    "sv": "alla allt att av blev bli blir de dem den denna deras dess det detta dig din dina du där efter ej eller "
    "en er ett från för ha hade han hans har henne hennes hon hur här i icke in ingen inom inte jag ju kan "
    "kunde man med mellan men mig min mina mot mycket ni nu när någon något några och om oss på samma sedan "
    "sig sin sina själv skulle som så till under upp ut utan vad var varför vara varit vart vem vi vid vilka "
    "vilken vilket vår är över",
}
_STOP_PAIRS = frozenset(
    (
        "から",
        "これ",
        "した",
        "する",
        "それ",
        "です",
        "とは",
        "ます",
        "まで",
        "为什",
        "为何",
        "什么",
        "可以",
        "哪个",
        "哪些",
        "哪里",
        "多少",
        "如何",
        "怎么",
        "怎样",
        "是否",
    )
)
"""Of scripts without spaces, where a question becomes pairs of characters."""


def fold(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        return word.lower()
    return "".join(one for one in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(one))


_FOLDED = {name: frozenset(map(fold, words.split())) for name, words in _STOP_WORDS.items()}
_SAME = ("nb", "nn")
_FOLDED |= dict.fromkeys(_SAME, _FOLDED["no"])


def is_stop_word(word: str, language: str) -> bool:
    """Return whether it is a stop word of this language."""
    return fold(word) in _FOLDED.get(language, ())


def has_stop_words(words: Sequence[str]) -> bool:
    """Return whether a question has a stop word of any language: it is then a sentence that somebody wrote."""
    return any(fold(word) in listed for word in words for listed in _FOLDED.values())


def question_language(words: Sequence[str]) -> str:
    """Return the language of a short question by its small words; empty if they do not tell.

    Two of one language tell, if no other has as many: `warum ist` is German, `de la` French as well as Spanish. In
    English one tells where it opens the question and no other language has it: `the river rose`, `who won`.
    """
    folded = list(map(fold, words))
    counts = Counter(
        {name: sum(word in listed for word in folded) for name, listed in _FOLDED.items() if name not in _SAME}
    )
    (best, count), (_, rival) = counts.most_common(2)
    if count > max(1, rival):
        return best
    opens_in_english = any(word in _FOLDED["en"] for word in folded[:1])
    return "en" if best == "en" and rival == 0 and opens_in_english else ""


def possible_languages(words: Sequence[str], among: Iterable[str]) -> frozenset[str]:
    """Return in which of these languages a question may be: those of which it has most small words, if it has any, and
    those whose small words are not known."""
    folded = list(map(fold, words))
    counts = {name: sum(word in listed for word in folded) for name, listed in _FOLDED.items()}
    most = max(counts.values())
    return frozenset(name for name in among if counts.get(name, most) == most)


def without_stop_words(words: Sequence[str], languages: Sequence[str]) -> list[str]:
    """Return the words of a question without stop words; all of them if it has no others.

    `languages`: those of the pages, the commonest first. The one with most stop words here is taken to be that of the
    question: `die` is an article in one question and a verb in another. Where no page is in the language that the
    question tells, its small words are dropped all the same: `die` would find `died`.
    """
    folded = list(map(fold, words))
    told = question_language(words)
    names = [name for name in languages if name in _FOLDED]
    if told and told not in names:
        names = [told]
    counts = Counter({name: sum(word in _FOLDED[name] for word in folded) for name in names})
    listed = _FOLDED[counts.most_common(1)[0][0]] if counts else frozenset()
    kept = [word for word, plain in zip(words, folded, strict=True) if plain not in listed and word not in _STOP_PAIRS]
    return kept or list(words)
