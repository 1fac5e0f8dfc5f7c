"""What JATS elements are to a text. Names as of JATS 1.3 archiving and its NLM predecessors, without namespace."""

# Part of the sentence around it.
INLINE = frozenset({
    "abbrev", "alternatives", "article-title", "award-id", "bold", "chem-struct", "code", "email", "ext-link",
    "fixed-case", "funding-source", "inline-supplementary-material", "institution",
    "institution-wrap", "italic", "milestone-end", "milestone-start", "monospace", "named-content", "overline",
    "overline-end", "overline-start", "private-char", "roman", "sans-serif", "sc", "strike", "styled-content",
    "subtitle", "target", "underline", "underline-end", "underline-start", "uri", "x",
})  # fmt: skip

# Text of its own, in its place.
BLOCKS = frozenset({
    "address", "app-group", "array", "attrib", "body", "caption", "def", "def-item", "def-list", "disp-quote",
    "floats-group", "floats-wrap", "speech", "statement", "table-wrap-foot", "verse-group", "verse-line",
})  # fmt: skip

# Their titles are headings.
SECTIONS = frozenset({
    "abstract", "ack", "app", "fn-group", "glossary", "notes", "ref-list", "sec", "trans-abstract",
})  # fmt: skip

# Text of their own, behind the paragraph in which they stand; a label such as `Table 1` gets a full stop.
CAPTIONED = frozenset({
    "boxed-text", "chem-struct-wrap", "fig", "fig-group", "media", "supplementary-material", "table-wrap",
    "table-wrap-group",
})  # fmt: skip
FLOATS = CAPTIONED | {"fn"}

# Never read: pictures, what describes the article, other articles. Options decide about `table` and `ref-list`.
LEFT_OUT = frozenset({
    "alt-text", "col", "colgroup", "custom-meta-group", "graphic", "hr", "index-term", "inline-graphic",
    "inline-media", "kwd-group", "long-desc", "object-id", "permissions", "related-article",
    "related-object", "response", "sec-meta", "sub-article",
})  # fmt: skip

# Values of ref-type of an xref that is a marker, not part of the sentence.
MARKERS = frozenset({"aff", "author-notes", "bibr", "corresp", "fn", "ref", "table-fn"})

# Values of abstract-type: short texts for tables of contents, which repeat the abstract.
BLURBS = frozenset({"graphical", "short", "teaser", "toc", "web-summary"})
