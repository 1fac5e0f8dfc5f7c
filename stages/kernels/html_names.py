"""What the HTML kernels know by name: tags and their rules, attributes, words of class names, words of text.

All names of all kinds are in one open hash table: FNV-1a of the lower-case name, with a salt for each kind.
"""

import functools
from collections.abc import Iterator

import numpy as np

from stages.kernels.html_page import (
    ARIA_HIDDEN_BIT,
    ATTRIBUTE_SALT,
    BASIS,
    CLASS_SALT,
    KNOWN_TAGS,
    META_SALT,
    PRIME,
    TABLE_SIZE,
    TEXT_SALT,
    Attribute,
    Group,
    Names,
    Rule,
)

TAGS = KNOWN_TAGS + tuple(
    [
        "noscript",
        "template",
        "svg",
        "math",
        "iframe",
        "textarea",
        "object",
        "canvas",
        "select",
        "option",
        "optgroup",
        "button",
        "form",
        "fieldset",
        "label",
        "input",
        "nav",
        "header",
        "footer",
        "aside",
        "main",
        "article",
        "section",
        "div",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "td",
        "caption",
        "blockquote",
        "figure",
        "figcaption",
        "address",
        "hr",
        "img",
        "span",
        "b",
        "strong",
        "i",
        "em",
        "u",
        "small",
        "font",
        "abbr",
        "code",
        "sup",
        "sub",
        "time",
        "mark",
        "cite",
        "q",
        "s",
        "del",
        "ins",
        "big",
        "tt",
        "var",
        "kbd",
        "samp",
        "wbr",
        "link",
        "source",
        "area",
        "base",
        "embed",
        "param",
        "track",
        "col",
        "colgroup",
        "center",
        "details",
        "summary",
        "picture",
        "video",
        "audio",
        "amp-img",
        "noindex",
        "frame",
        "frameset",
        "menu",
        "hgroup",
        "dialog",
        "acronym",
        "strike",
        "nobr",
        "bdi",
        "bdo",
        "ruby",
        "rt",
        "rp",
        "data",
        "output",
        "map",
        "dir",
        "legend",
    ]
)
TAG = {name: number for number, name in enumerate(TAGS, 1)}  # 0 is a tag of another name


def _groups() -> dict[str, Group]:
    named = {
        Group.VOID: "br hr img input meta link source area base embed param track col wbr frame",
        Group.RAW: "script style noscript template svg math iframe textarea title",
        Group.INLINE: "a span b strong i em u small font abbr code sup sub time mark cite q s del ins big tt var kbd samp "
        "wbr img br label acronym strike nobr bdi bdo ruby rt rp data output map noindex picture meta link amp-img",
        Group.PARAGRAPH: "p",
        Group.ITEM: "li",
        Group.TERM: "dt dd",
        Group.CELL: "td th",
        Group.ROW: "tr",
        Group.ROWS: "tbody thead tfoot caption colgroup",
        Group.TABLE: "table",
        Group.LIST: "ul ol menu dl",
        Group.OPTION: "option",
        Group.HEADING: "h1 h2 h3 h4 h5 h6",
        Group.ANCHOR: "a",
        Group.ENDS_PARAGRAPH: "address article aside blockquote center details dialog dir div dl fieldset figcaption "
        "figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre section table ul li dt dd",
        Group.FOREIGN: "svg math",
        Group.NESTS: "svg math template noscript",
    }
    groups = dict.fromkeys(TAGS, Group(0))
    for group, names in named.items():
        for name in names.split():
            groups[name] |= group
    boxes = (
        Group.INLINE
        | Group.PARAGRAPH
        | Group.ITEM
        | Group.TERM
        | Group.CELL
        | Group.ROW
        | Group.ROWS
        | Group.TABLE
        | Group.LIST
        | Group.OPTION
        | Group.HEADING
    )
    return {name: group if group & boxes else group | Group.BLOCK for name, group in groups.items()}


_ALL = (1 << 18) - 1


def _rule(group: Group) -> tuple[int, int, int, int]:
    ends, stops = 0, 0
    if group & Group.ITEM:
        ends, stops = Group.ITEM, Group.LIST | Group.TABLE | Group.CELL
    elif group & Group.TERM:
        ends, stops = Group.TERM, Group.LIST | Group.TABLE | Group.CELL
    elif group & Group.CELL:
        ends, stops = Group.CELL, Group.ROW | Group.TABLE
    elif group & Group.ROW:
        ends, stops = Group.ROW, Group.TABLE | Group.ROWS
    elif group & Group.ROWS:
        ends, stops = Group.ROWS | Group.ROW, Group.TABLE
    elif group & Group.OPTION:
        ends, stops = Group.OPTION, Group.BLOCK
    elif group & Group.ANCHOR:
        ends, stops = Group.ANCHOR, _ALL & ~(Group.INLINE | Group.ANCHOR | Group.VOID)
    elif group & Group.ENDS_PARAGRAPH:
        ends, stops = Group.PARAGRAPH, Group.CELL | Group.TABLE | Group.ROWS | Group.LIST | Group.BLOCK | Group.ITEM
    return int(group), int(ends), int(stops), int(_end_stops(group))


def _end_stops(group: Group) -> int:
    if group & Group.INLINE:
        return _ALL & ~(Group.INLINE | Group.ANCHOR | Group.VOID)
    if group & (Group.CELL | Group.ROW | Group.ROWS):
        return Group.TABLE
    if group & Group.TABLE:
        return 0
    if group & (Group.ITEM | Group.PARAGRAPH):
        return Group.CELL | Group.TABLE
    return Group.CELL


_ATTRIBUTES = {
    "class": Attribute.CLASS,
    "id": Attribute.NAMING,
    "role": Attribute.NAMING,
    "itemprop": Attribute.NAMING,
    "itemtype": Attribute.NAMING,
    "style": Attribute.STYLE,
    "hidden": Attribute.HIDDEN,
    "aria-hidden": Attribute.ARIA_HIDDEN,
    "property": Attribute.META_NAME,
    "name": Attribute.META_NAME,
    "content": Attribute.CONTENT,
}

# Words of class and id, by what they say of a place. The number of a group is a bit and a feature.
CLASS_WORDS = (
    "comment comments commentlist kommentar kommentare comentarios commentaires disqus respond reply replies discussion "
    "forum leserbrief commento komentarze",
    "sidebar aside rail secondary marginal rightcol leftcol complementary right left barra",
    "footer foot bottom colophon contentinfo fuss fusszeile",
    "nav navi navigation navbar menu menue topnav submenu sitemap",
    "header head masthead kopf topbar top hero",
    "related relatedposts recommend recommended recommendation recommendations similar suggested suggestions further "
    "popular trending mostread latest recent outbrain taboola yarpp verwandte also",
    "teaser teasers promo card tile cards upsell more mehr",
    "share sharing shares social facebook twitter whatsapp addthis sharedaddy sociable follow pinterest linkedin shariff "
    "sharebar addtoany instagram",
    "author authors byline bio autor contributor vcard autoren signature",
    "date time timestamp published pubdate datum posted updated datetime fecha",
    "meta postmeta info details infos metadata entrymeta",
    "tag tags category categories cat keywords topics topic schlagworte kategorie tagcloud",
    "ad ads advert advertisement adv werbung anzeige anzeigen sponsor sponsored adsense dfp promoted publicidad adslot "
    "banner reklame",
    "newsletter subscribe subscription signup abo paywall register subscriber mailing",
    "login cookie cookies consent gdpr popup modal overlay dialog notice alert cmp",
    "caption figcaption image img photo gallery galerie slideshow picture credit media video player bild foto carousel "
    "slider bildunterschrift",
    "article artikel articulo articles articol",
    "content inhalt contents contenido contenu",
    "post entry blog hentry blogpost single",
    "body text copy articlebody richtext txt rte paragraph prose maincontent bodytext",
    "main primary haupt hauptinhalt",
    "story news",
    "title headline heading subtitle titel subheadline subhead ueberschrift hed",
    "lead intro lede dek standfirst summary excerpt abstract description vorspann leadtext",
    "widget module plugin modul",
    "search suche form input filter suchformular",
    "pagination pager prev next previous paging nextprev navlinks",
    "print tools toolbar utility actions button buttons icon icons tool btn",
    "hide invisible visually offscreen noprint mobile screen",
    "list archive liste listing items archives item",
    "link links linklist blogroll",
    "quote blockquote pullquote infobox factbox fact",
    "toc index",
    "rating ratings vote like likes price product shop cart buy stars",
    "copyright legal disclaimer license impressum imprint privacy rights terms",
    "recipe ingredients ingredient rezept zutaten instructions step steps",
    "footnote footnotes references reference refs notes",
    "lang language languages sprache translate",
    "profile user avatar username member account",
    "calendar kalender event events",
    "wrapper wrap container layout inner outer",
    "breadcrumb breadcrumbs crumbs crumb brotkrumen",
    "tab tabs accordion toggle dropdown",
    "box kasten block",
    "page site",
)
NUM_WORD_BITS = ARIA_HIDDEN_BIT + 1  # and the bits of pairs and of what is hidden

# Words of text that give away what is not the article.
TEXT_WORDS = (
    "share tweet facebook twitter whatsapp pinterest linkedin teilen compartir partager email mail print drucken "
    "instagram youtube rss flipboard reddit",
    "comments comment kommentare kommentar comentarios commentaires reply antworten respond replies leave responder",
    "more mehr weiterlesen read lesen weiter continue next previous vorheriger older newer siguiente anterior lire suite "
    "leer artikel",
    "copyright rights reserved rechte vorbehalten privacy terms impressum datenschutz agb kontakt contact policy "
    "disclaimer",
    "subscribe newsletter sign login register anmelden abonnieren abo registrieren account password logout subscription "
    "subscribers",
    "cookie cookies browser javascript enable adblock akzeptieren",
    "by von par por autor author posted published updated aktualisiert written geschrieben verfasst january february "
    "march april may june july august september october november december januar februar mai juni juli oktober dezember "
    "uhr am pm est",
    "tags tag category categories kategorie kategorien filed under schlagworte themen topics abgelegt thema",
    "photo foto image credit getty reuters afp dpa picture bild quelle source fotos photos images courtesy",
    "related popular trending recommended latest recent similar verwandte beliebt neueste ads advertisement anzeige "
    "werbung sponsored also auch",
    "home menu search suche startseite navigation inhalt skip content close top",
)
NUM_TEXT_WORDS = len(TEXT_WORDS)

# Tags whose distance above a block is a feature.
NEAR_TAGS = [
    "nav",
    "header",
    "footer",
    "aside",
    "main",
    "article",
    "section",
    "form",
    "table",
    "ul",
    "ol",
    "li",
    "dl",
    "figure",
    "figcaption",
    "blockquote",
    "button",
    "select",
    "p",
    "pre",
    "h1",
    "h2",
    "h3",
    "h4",
    "a",
    "details",
    "td",
    "address",
    "div",
]
NUM_NEAR_TAGS = len(NEAR_TAGS)

META_TITLE = "og:title"


def fnv(name: str) -> int:
    """FNV-1a of a name's bytes."""
    value = BASIS
    for byte in name.encode():
        value = (value ^ byte) * PRIME & (1 << 64) - 1
    return value


@functools.cache
def names() -> Names:
    """The tables, made once a process."""
    keys, values = np.zeros(TABLE_SIZE, np.uint64), np.full(TABLE_SIZE, -1, np.int32)
    for key, value in _entries():
        at = key >> 40 & TABLE_SIZE - 1
        while values[at] >= 0 and keys[at] != key:
            at = (at + 1) % TABLE_SIZE
        keys[at], values[at] = key, value
    rules = np.zeros((256, len(Rule)), np.int32)
    rules[:] = _rule(Group.BLOCK)
    for name, group in _groups().items():
        rules[TAG[name]] = _rule(group)
    near_tags = np.full(256, -1, np.int32)
    for number, name in enumerate(NEAR_TAGS):
        near_tags[TAG[name]] = number
    return Names(keys, values, rules, near_tags)


def _entries() -> Iterator[tuple[int, int]]:
    for name, number in TAG.items():
        yield fnv(name), number
    for name, attribute in _ATTRIBUTES.items():
        yield fnv(name) ^ ATTRIBUTE_SALT, int(attribute)
    for salt, groups in ((CLASS_SALT, CLASS_WORDS), (TEXT_SALT, TEXT_WORDS)):
        for number, words in enumerate(groups):
            for word in words.split():
                yield fnv(word) ^ salt, number
    yield fnv(META_TITLE) ^ META_SALT, 0
