"""Malformed pipelines: what is changed in SMALL, and the one line that must come of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Malformed:
    name: str
    old: str
    new: str
    message: str


WEB_READ = 'read: {use: tiny_stages.ReadLines, paths: "data/*.txt"}'
EXTRACT = "{use: tiny_stages.Extract, tables: small}"
KEEP = "{use: tiny_stages.Keep, min_words: 5}"
ROWS = "rows: {length: 16, packing: concat, per_shard: 64}"
TOKENIZER = "tokenizer: {model: models/tiny.model, bos: document, eos: document}"
CHAIN = "(source 'web': tiny_stages.ReadLines -> tiny_stages.Extract -> tiny_stages.Language"
UNBUILT = "is in the grammar but not built in this version"

# Longer stretches of SMALL, for changes in two places.
NOTES = "steps: [{use: tiny_stages.Extract, name: extract_notes, tables: drop}]"
READ_NOTES = "  notes:\n    read:\n      use: tiny_stages.ReadLines\n      paths: [notes/a.txt, notes/b.txt]\n    "
KEEP_TO_NOTES = f"{KEEP}\n{READ_NOTES}{NOTES}"
TWO_EXCHANGES = f"tiny_stages.Meet\n{READ_NOTES}{NOTES.replace('}]', '}, tiny_stages.Meet]')}"
CORPUS_TO_ROWS = (
    "  corpus:\n    from: [web, notes]\n    steps:\n      - tiny_stages.Repair\n"
    f"dataset:\n  from: corpus\n  {TOKENIZER}\n  {ROWS}"
)


def mix(*groups: str) -> str:
    """The rows of SMALL, and a mix with one group a line."""
    return "\n    ".join([f"{ROWS}\n  mix:", *groups])


MORE = (
    "  more: {read: {use: tiny_stages.ReadLines, paths: notes/a.txt}, steps: [{use: tiny_stages.Extract, name: again}]}"
)
GROUPS = mix("a: {sources: [web], take: all}", "b: {sources: [notes], share: 0.6}", "c: {sources: [more], share: 0.4}")
THREE_SOURCES = CORPUS_TO_ROWS.replace("[web, notes]", "[web, notes, more]").replace(ROWS, GROUPS)
THREE_SOURCES = f"{MORE}\n{THREE_SOURCES}"

# Ten of each kind of mistake; these also go through the real command.
COMMON = [
    Malformed("version missing", "curate: 1\n", "", ":1: 'curate: 1' is missing, the version of the grammar"),
    Malformed("top-level key", "seed: 7", "sed: 7", ":3: unknown key of the pipeline: 'sed'; did you mean 'seed'?"),
    Malformed(
        "option",
        "min_words: 5",
        "min_word: 5",
        ":10: unknown option of tiny_stages.Keep: 'min_word'; did you mean 'min_words'?",
    ),
    Malformed("duplicate key", "seed: 7", "seed: 7\nseed: 8", ":4: duplicate key 'seed'; first on line 3"),
    Malformed("syntax", "[notes/a.txt, notes/b.txt]", "[notes/a.txt",
              ":15: not valid YAML: expected ',' or ']', but got ':'"),
    Malformed("unknown node", "from: [web, notes]", "from: [wbe, notes]",
              ":17: 'from' of node 'corpus' names 'wbe', which is not a node of documents; did you mean 'web'?"),
    Malformed("cycle", WEB_READ, "from: corpus", ":5: nodes read each other in a cycle: web -> corpus -> web"),
    Malformed("empty glob", "data/*.txt", "data/*.warc", ":6: no file matches 'data/*.warc'"),
    Malformed("module", "tiny_stages.Repair", "tiny_stage.Repair",
              ":19: tiny_stage.Repair: no module 'tiny_stage'; install its package, or put its folder on PYTHONPATH"),
    Malformed("model", "models/language.bin", "models/lid.bin",
              ":9: model of tiny_stages.Language: 'models/lid.bin' cannot be read: No such file or directory"),
]  # fmt: skip

FILE = [
    Malformed("version other", "curate: 1", "curate: 2",
              ":1: grammar version '2' is unknown; curate 0.1.0 reads 'curate: 1'"),
    Malformed("version list", "curate: 1", "curate: [1]",
              ":1: grammar version a list is unknown; curate 0.1.0 reads 'curate: 1'"),
    Malformed("tag", "seed: 7", "seed: !!python/object/apply:os.getpid []",
              ":3: YAML tags are not allowed, found 'tag:yaml.org,2002:python/object/apply:os.getpid'"),
    Malformed("tabs", "seed: 7", "\tseed: 7",
              ":3: not valid YAML: found character '\\t' that cannot start any token"),
    Malformed("control character", "name: small", "name: sm\x01all",
              ":2: not valid YAML: the character '\\x01' is not allowed"),
    Malformed("escape beyond Unicode", "name: small", 'name: "\\UFFFFFFFF"',
              ":2: not valid YAML: a character code out of range"),
    Malformed("two documents", "limits:", "---\nlimits:", ":24: not valid YAML: but found another document"),
    Malformed("unknown alias", "seed: 7", "seed: *seed", ":3: not valid YAML: found undefined alias 'seed'"),
    Malformed("key that is a list", "seed: 7", "[a, b]: 7", ":3: a key must be a word, not a list"),
    Malformed("merge key", "seed: 7", "<<: {seed: 7}",
              ":3: unknown key of the pipeline: '<<'; known are "
              "curate, dataset, documents, limits, name, output, run, seed"),
    Malformed("dataset missing", "dataset:", "data:",
              ":20: unknown key of the pipeline: 'data'; did you mean 'dataset'?"),
    Malformed("documents empty", "documents:", "documents: {}\nlater:",
              ":5: unknown key of the pipeline: 'later'; known are "
              "curate, dataset, documents, limits, name, output, run, seed"),
    Malformed("from missing", "  from: corpus\n", "", ":21: dataset needs the key 'from'"),
    Malformed("tokenizer missing", f"  {TOKENIZER}\n", "", ":21: dataset needs the key 'tokenizer'"),
    Malformed("tokenizer model missing", "{model: models/tiny.model, bos", "{bos",
              ":22: dataset.tokenizer needs the key 'model'"),
    Malformed("name", "name: small", "name: ../small",
              ":2: the name of a pipeline must be letters, digits, '_' and '-', not '../small'"),
    Malformed("output of another kind", "seed: 7", "seed: 7\noutput: gs://bucket/x",
              ":4: unknown kind of storage: 'gs://'; want a local folder or s3://bucket/prefix"),
    Malformed("output empty", "seed: 7", 'seed: 7\noutput: ""',
              ":4: the output is empty; want a folder or s3://bucket/prefix"),
    Malformed("output is a file", "seed: 7", "seed: 7\noutput: pipeline.yaml",
              ":4: the output '{folder}/pipeline.yaml' is a file; want a folder or s3://bucket/prefix"),
]  # fmt: skip

VALUES = [
    Malformed("seed text", "seed: 7", "seed: seven", ":3: seed of the pipeline must be a whole number, not 'seven'"),
    Malformed("seed quoted", "seed: 7", 'seed: "7"',
              ":3: seed of the pipeline must be a whole number, not the text '7'"),
    Malformed("seed octal", "seed: 7", "seed: 010", ":3: seed of the pipeline must be a whole number, not '010'"),
    Malformed("seed too large", "seed: 7", "seed: 9223372036854775808",
              ":3: seed of the pipeline is beyond 64 bits: 9223372036854775808"),
    Malformed("length zero", "length: 16", "length: 0", ":23: dataset.rows: length must be from 2 to 16777216, not 0"),
    Malformed("length size", "length: 16", "length: 16 KiB",
              ":23: length of dataset.rows must be a whole number, not '16 KiB'"),
    Malformed("per_shard", "per_shard: 64", "per_shard: -1",
              ":23: dataset.rows: per_shard must be from 1 to 2147483648, not -1"),
    Malformed("shard too large", "per_shard: 64", "per_shard: 2147483648",
              ":23: a shard would have 68719476736 bytes, above 5368709120; lower per_shard"),
    Malformed("packing", "packing: concat", "packing: concatenate",
              ":23: packing of dataset.rows must be one of concat, best_fit_fill, not 'concatenate'; "
              "did you mean 'concat'?"),
    Malformed("rows key", "length: 16", "lenght: 16",
              ":23: unknown key of dataset.rows: 'lenght'; did you mean 'length'?"),
    Malformed("rows list", ROWS, "rows: [16]", ":23: rows of dataset must be a mapping, not a list"),
    Malformed("bos", "bos: document", "bos: true",
              ":22: bos of dataset.tokenizer must be one of document, none, not 'true'"),
    Malformed("limit", "max_quarantined: 0.001", "max_quarantined: 1.5",
              ":24: limits: max_quarantined must be from 0 to 1, not 1.5"),
    Malformed("limit infinite", "max_quarantined: 0.001", "max_quarantined: 1e999",
              ":24: max_quarantined of limits is too large: 1e999"),
    Malformed("limit nan", "max_quarantined: 0.001", "max_quarantined: .nan",
              ":24: max_quarantined of limits must be a number, not '.nan'"),
    Malformed("limits empty", "limits: {max_quarantined: 0.001}", "limits:",
              ":24: limits of the pipeline must be a mapping, not nothing"),
    Malformed("memory", "memory_per_worker: 2 GiB", "memory_per_worker: 2 GB/s",
              ":25: memory_per_worker of run must be a size such as 64 MiB, not '2 GB/s'"),
    Malformed("unit bytes", "unit_seconds: 60", "unit_bytes: 0 B", ":25: run: unit_bytes must be above 0, not 0"),
    Malformed("unit seconds", "unit_seconds: 60", "unit_seconds: 12:30:00",
              ":25: unit_seconds of run must be a duration such as 90 s, not '12:30:00'"),
    Malformed("option of the wrong type", "min_words: 5", "min_words: many",
              ":10: min_words of tiny_stages.Keep must be a whole number, not 'many'"),
    Malformed("option list", "min_words: 5", "min_words: [5]",
              ":10: min_words of tiny_stages.Keep must be a whole number, not a list"),
    Malformed("option refused by the stage", "min_words: 5", "min_words: -5",
              ":10: tiny_stages.Keep: min_words must not be negative, not -5"),
    Malformed("boolean", "min_words: 5", "is_strict: no",
              ":10: is_strict of tiny_stages.Keep must be true or false, not 'no'"),
    Malformed("choice", "min_words: 5", "order: longst",
              ":10: order of tiny_stages.Keep must be one of first, longest, not 'longst'; did you mean 'longest'?"),
    Malformed("literal", "tables: small", "tables: big",
              ":8: tables of tiny_stages.Extract must be one of small, drop, not 'big'"),
    Malformed("nested option", "min_words: 5", "weights: {titel: 2}",
              ":10: unknown key of tiny_stages.Keep.weights: 'titel'; did you mean 'title'?"),
    Malformed("nested option type", "min_words: 5", "weights: {body: 1.5}",
              ":10: body of tiny_stages.Keep.weights must be a whole number, not '1.5'"),
    Malformed("option without a value", "min_words: 5", "languages: ",
              ":10: languages of tiny_stages.Keep must be a text, not nothing"),
    Malformed("text that is not text", "min_words: 5", 'languages: "\\uD800"',
              ":10: languages of tiny_stages.Keep holds a character that is not text: '\\ud800'"),
    Malformed("model is a folder", "models/language.bin", "models",
              ":9: model of tiny_stages.Language: 'models' cannot be read: Is a directory"),
    Malformed("model in S3", "models/language.bin", "s3://bucket/model",
              ":9: model of tiny_stages.Language must be a local file, not 's3://bucket/model'"),
    Malformed("package", "models/language.bin", "no_package:lid.bin",
              ":9: model of tiny_stages.Language: the package 'no_package' of 'no_package:lid.bin' is not installed"),
    Malformed("file of a package", "models/language.bin", "click:cores.py",
              ":9: model of tiny_stages.Language: the package 'click' has no file 'cores.py'; did you mean 'core.py'?"),
]  # fmt: skip

GRAPH = [
    Malformed("node list", WEB_READ, "read: [x]",
              ":6: 'read' of node 'web' must be an import path or a mapping with 'use', not a list"),
    Malformed("node key", "    from: [web, notes]\n    steps:", "    from: [web, notes]\n    step:",
              ":18: unknown key of node 'corpus': 'step'; did you mean 'steps'?"),
    Malformed("node name", "  web:\n", "  web/a:\n",
              ":5: the name of a node must be letters, digits, '_' and '-', not 'web/a'"),
    Malformed("both", "    from: [web, notes]", "    read: tiny_stages.ReadLines\n    from: [web, notes]",
              ":16: node 'corpus' has both of 'read' and 'from'; it must have one"),
    Malformed("neither", "    from: [web, notes]\n", "",
              ":16: node 'corpus' has neither of 'read' and 'from'; it must have one"),
    Malformed("steps mapping", "steps: [{use: tiny_stages.Extract, name: extract_notes, tables: drop}]",
              "steps: {use: tiny_stages.Extract}", ":15: 'steps' of node 'notes' must be a list, not a mapping"),
    Malformed("from empty", "from: [web, notes]", "from: []", ":17: 'from' of node 'corpus' names no node"),
    Malformed("from null", "from: [web, notes]", "from: [web, ~]",
              ":17: 'from' of node 'corpus' must be a node's name or a list of names, not nothing"),
    Malformed("dataset from", "from: corpus", "from: corpse",
              ":21: 'from' of dataset names 'corpse', which is not a node of documents; did you mean 'corpus'?"),
    Malformed("cycle of three", WEB_READ, "from: other\n  other:\n    from: corpus",
              ":5: nodes read each other in a cycle: web -> corpus -> other -> web"),
    Malformed("self", WEB_READ, "from: web", ":5: nodes read each other in a cycle: web -> web"),
    Malformed("unused", "from: [web, notes]", "from: [web]",
              ":11: node 'notes' is not used by any 'from'; use it or remove it"),
    Malformed("twice in one list", "from: [web, notes]", "from: [web, notes, web]",
              ":17: node 'web' is used twice (also on line 17): its documents would be in the dataset twice"),
    Malformed("twice in two lists", "from: corpus", "from: [corpus, web]",
              ":17: node 'web' is used twice (also on line 21): its documents would be in the dataset twice"),
    Malformed("use missing", KEEP, "{min_words: 5}", ":10: a step of node 'web' needs the key 'use'"),
    Malformed("use list", KEEP, "{use: [tiny_stages.Keep]}",
              ":10: 'use' of a step of node 'web' must be an import path, not a list"),
    Malformed("step null", KEEP, "~",
              ":10: a step of node 'web' must be an import path or a mapping with 'use', not nothing"),
]  # fmt: skip

STAGES = [
    Malformed("no import path", "tiny_stages.Repair", "Repair",
              ":19: 'Repair' is not an import path; write package.module.Class, such as stages.quality.GopherQuality"),
    Malformed("module in a package", "tiny_stages.Repair", "stages.txt.DropEmpty",
              ":19: stages.txt.DropEmpty: no module 'stages.txt'; did you mean 'stages.text'?"),
    Malformed("module below a module", "tiny_stages.Repair", "tiny_stages.Repair.x",
              ":19: tiny_stages.Repair.x: no module 'tiny_stages.Repair'"),
    Malformed("attribute", "tiny_stages.Repair", "tiny_stages.Repairs",
              ":19: tiny_stages.Repairs: the module tiny_stages has no 'Repairs'; did you mean 'Repair'?"),
    Malformed("module that fails", "tiny_stages.Repair", "broken_stages.Repair",
              ":19: broken_stages.Repair cannot be imported: No module named 'no_such_module_anywhere'"),
    Malformed("not a class", "tiny_stages.Repair", "tiny_stages.NUMBER",
              ":19: tiny_stages.NUMBER is not a stage: a class derived from Reader, Map, Filter or Exchange"),
    Malformed("not a stage", "tiny_stages.Repair", "tiny_stages.Weights",
              ":19: tiny_stages.Weights is not a stage: a class derived from Reader, Map, Filter or Exchange"),
    Malformed("unfinished", "tiny_stages.Repair", "tiny_stages.Unfinished",
              ":19: tiny_stages.Unfinished is not a complete stage: it lacks adds, open"),
    Malformed("library", "tiny_stages.Repair", "tiny_stages.NeedsLibrary",
              ":19: tiny_stages.NeedsLibrary needs the library 'no-such-library', which is not installed"),
    Malformed("filter under read", "use: tiny_stages.ReadLines, paths", "use: tiny_stages.Keep, paths",
              ":6: tiny_stages.Keep is of the family Filter; 'read' wants a Reader"),
    Malformed("reader under steps", "tiny_stages.Repair", "tiny_stages.ReadLines",
              ":19: tiny_stages.ReadLines is of the family Reader; 'steps' wants a Map or Filter or Exchange"),
    Malformed("required option", ', paths: "data/*.txt"', "", ":6: tiny_stages.ReadLines needs the option 'paths'"),
    Malformed("option of a stage without options", "- tiny_stages.Repair", "- {use: tiny_stages.Repair, form: NFC}",
              ":19: unknown option of tiny_stages.Repair: 'form'; known are name, use"),
    Malformed("equal names on one chain", KEEP, f"{KEEP}\n      - {KEEP}",
              ":11: two steps are named 'keep' (the other on line 10); set another with 'name:'"),
    Malformed("equal names of unlike steps", "name: extract_notes, ", "",
              ":15: two steps are named 'extract' (the other on line 8); set another with 'name:'"),
    Malformed("given name", "name: extract_notes", "name: keep",
              ":15: two steps are named 'keep' (the other on line 10); set another with 'name:'"),
    Malformed("own name", "name: extract_notes", "name: tokenize",
              ":15: the step name 'tokenize' is taken by a reader or by curate; set another with 'name:'"),
    Malformed("name of a reader", "name: extract_notes", "name: read_lines",
              ":15: the step name 'read_lines' is taken by a reader or by curate; set another with 'name:'"),
    Malformed("name with a slash", "name: extract_notes", "name: a/b",
              ":15: the name of a step must be letters, digits, '_' and '-', not 'a/b'"),
    Malformed("step that curate adds", "tiny_stages.Repair", "stages.text.DropEmpty",
              ":19: the step name 'drop_empty' is taken by a reader or by curate; set another with 'name:'"),
    Malformed("column", KEEP, "{use: tiny_stages.KeepColumn, column: langage}",
              ":10: tiny_stages.KeepColumn reads column 'langage', which nothing before it adds; "
              f"did you mean 'language'? {CHAIN})"),
    Malformed("column removed", KEEP, "{use: tiny_stages.KeepColumn, column: content}",
              ":10: tiny_stages.KeepColumn reads column 'content', which tiny_stages.Extract removed; "
              f"read it before that step {CHAIN})"),
    Malformed("column made from another text", "- tiny_stages.Repair",
              "- tiny_stages.Repair\n      - {use: tiny_stages.KeepColumn, column: language}",
              ":20: tiny_stages.KeepColumn reads column 'language', which was made from the text before "
              "tiny_stages.Repair changed it; make it again after that step "
              f"{CHAIN} -> tiny_stages.Keep -> tiny_stages.Repair)"),
    Malformed("no text at the end", "    steps: [{use: tiny_stages.Extract, name: extract_notes, tables: drop}]\n", "",
              ":18: tiny_stages.Repair reads column 'text', which nothing before it adds "
              "(source 'notes': tiny_stages.ReadLines)"),
]  # fmt: skip

PATHS = [
    Malformed("empty path", "[notes/a.txt, notes/b.txt]", '[""]',
              ":14: a path is empty: ''; write a file or a pattern, such as data/*.jsonl"),
    Malformed("no paths", "[notes/a.txt, notes/b.txt]", "[]", ":14: paths of tiny_stages.ReadLines names no file"),
    Malformed("path missing", "notes/a.txt", "notes/c.txt", ":14: 'notes/c.txt' does not exist"),
    Malformed("folder", "[notes/a.txt, notes/b.txt]", "notes",
              ":14: 'notes' is a folder; write 'notes/*' for the files in it, 'notes/**' for all below it"),
    Malformed("folder with a slash", "[notes/a.txt, notes/b.txt]", "notes/",
              ":14: 'notes/' is a folder; write 'notes/*' for the files in it, 'notes/**' for all below it"),
    Malformed("folder of a pattern", "data/*.txt", "dat/*.txt",
              ":6: no file matches 'dat/*.txt'; there is no folder '{folder}/dat'"),
    Malformed("parent after a wildcard", "data/*.txt", "dat*/../*.txt",
              ":6: 'dat*/../*.txt': '..' after a wildcard is not allowed"),
    Malformed("scheme", "data/*.txt", "https://host/x.txt",
              ":6: 'https://host/x.txt': inputs are local paths or s3://bucket/key, nothing else"),
    Malformed("bucket", "data/*.txt", "s3://buck*/x.txt",
              ":6: 's3://buck*/x.txt' is not s3://bucket/key with one bucket, named without wildcards"),
    Malformed("no common root", "notes/b.txt", "s3://bucket/b.txt",
              ":14: 's3://bucket/b.txt' and 'notes/a.txt' share no folder; read them as two sources"),
    Malformed("two buckets", "[notes/a.txt, notes/b.txt]", '["s3://one/a.txt", "s3://two/a.txt"]',
              ":14: 's3://two/a.txt' and 's3://one/a.txt' share no folder; read them as two sources"),
    Malformed("output among the inputs", 'paths: "data/*.txt"}', 'paths: "**"}',
              ":6: '**' takes in what the run writes to its output; move one of them"),
]  # fmt: skip

DATASET = [
    Malformed("split of another name", ROWS, f"{ROWS}\n  splits: {{train: 0.9}}",
              ":24: dataset: splits may name validation and test; the rest is train"),
    Malformed("splits of all", ROWS, f"{ROWS}\n  splits: {{validation: 0.5, test: 0.5}}",
              ":24: dataset: the shares of splits leave nothing to train"),
    Malformed("splits of all, in tenths", ROWS, f"{ROWS}\n  splits: {{validation: 0.7, test: 0.3}}",
              ":24: dataset: the shares of splits leave nothing to train"),
    Malformed("splits without a share", ROWS, f"{ROWS}\n  splits: {{validation: 0}}",
              ":24: dataset: the shares of splits must be above 0"),
    Malformed("splits list", ROWS, f"{ROWS}\n  splits: [0.1]", ":24: splits of dataset must be a mapping, not a list"),
    Malformed("mix wrong", ROWS, mix("all: {sources: [web], share: 1.5}"),
              ":25: dataset.mix.all: share must be between 0 and 1, not 1.5"),
    Malformed("mix nothing", ROWS, mix("all: {sources: [web, notes]}"),
              ":25: dataset.mix.all: a group has either 'take: all' or 'share'"),
    Malformed("mix both", ROWS, mix("all: {sources: [web, notes], take: all, share: 0.1}"),
              ":25: dataset.mix.all: a group has either 'take: all' or 'share'"),
    Malformed("mix take", ROWS, mix("all: {sources: [web, notes], take: some}"),
              ":25: take of dataset.mix.all must be all, not 'some'"),
    Malformed("mix epochs", ROWS, mix("all: {sources: [web, notes], take: all, epochs: 0}"),
              ":25: dataset.mix.all: epochs must be at least 1, not 0"),
    Malformed("mix without sources", ROWS, mix("all: {take: all}"),
              ":25: dataset.mix.all needs the key 'sources'"),
    Malformed("mix group name", ROWS, mix("'a b': {sources: [web, notes], take: all}"),
              ":25: the name of a mix group must be letters, digits, '_' and '-', not 'a b'"),
    Malformed("mix of an unknown source", ROWS, mix("all: {sources: [web, note], take: all}"),
              ":25: mix group 'all' names 'note', which is not a source; did you mean 'notes'?"),
    Malformed("mix of a node that does not read", ROWS, mix("all: {sources: [corpus], take: all}"),
              ":25: mix group 'all' names 'corpus', which is not a source"),
    Malformed("mix source in two groups", ROWS, mix("all: {sources: [web, notes], take: all}",
                                                    "more: {sources: [notes], share: 0.1}"),
              ":26: source 'notes' is named in mix group 'all' and again in 'more'"),
    Malformed("mix source twice in one group", ROWS, mix("all: {sources: [web, notes, web], take: all}"),
              ":25: source 'web' is named in mix group 'all' and again in 'all'"),
    Malformed("mix without a source", ROWS, mix("all: {sources: [web], take: all}"),
              ":24: source 'notes' is in no mix group"),
    Malformed("mix of shares", ROWS, mix("all: {sources: [web], share: 0.5}", "more: {sources: [notes], share: 0.1}"),
              ":24: every mix group has a share; one must have 'take: all', which the shares are measured by"),
    Malformed("mix group without sources", ROWS, mix("all: {sources: [web, notes], take: all}",
                                                     "more: {sources: [], share: 0.1}"),
              ":26: mix group 'more' names no source"),
    Malformed("mix of too large shares", CORPUS_TO_ROWS, THREE_SOURCES,
              ":25: the shares of the mix add up to 1; nothing is left for 'take: all'"),
    Malformed("mix empty", ROWS, f"{ROWS}\n  mix: {{}}", ":24: source 'web' is in no mix group"),
    Malformed("shard of an export too large", ROWS,
              f"{ROWS.replace('length: 16', 'length: 4096').replace(': 64', ': 500000')}\n  exports: [hf]",
              ":23: a shard of the export 'hf' would have 10240000000 bytes, above 5368709120; lower per_shard"),
    Malformed("exports not built", ROWS, f"{ROWS}\n  exports: [hf, mds]", f":24: 'dataset.exports' {UNBUILT}"),
    Malformed("exports twice", ROWS, f"{ROWS}\n  exports: [hf, hf]", ":24: dataset: exports names one format twice"),
    Malformed("exports unknown", ROWS, f"{ROWS}\n  exports: [hff]",
              ":24: exports of dataset must be one of hf, megatron, mds, nanotron, olmo, not 'hff'; "
              "did you mean 'hf'?"),
    Malformed("watch", "unit_seconds: 60", "watch: {no_progress_minutes: 15, then: stop}",
              f":25: 'run.watch' {UNBUILT}"),
    Malformed("exchange under read", "use: tiny_stages.ReadLines, paths", "use: tiny_stages.Meet, paths",
              ":6: tiny_stages.Meet is of the family Exchange; 'read' wants a Reader"),
    Malformed("exchange twice on one chain", "- tiny_stages.Repair", "- tiny_stages.Meet\n      - tiny_stages.Meet",
              ":20: two steps are named 'meet' (the other on line 19); set another with 'name:'"),
    Malformed("equal exchanges on two chains", KEEP_TO_NOTES, TWO_EXCHANGES,
              ":15: two steps are named 'meet' (the other on line 10); set another with 'name:'"),
    Malformed("column of the engine", "tiny_stages.Repair", "tiny_stages.AddCluster",
              ":19: tiny_stages.AddCluster adds the column 'cluster', a name that curate keeps for its own"),
    Malformed("reader's column of the engine", "use: tiny_stages.ReadLines, paths", "use: tiny_stages.ReadRow, paths",
              ":6: tiny_stages.ReadRow adds the column 'row', a name that curate keeps for its own"),
    Malformed("exchange column", "- tiny_stages.Repair", "- {use: tiny_stages.MeetBy, column: languag}",
              ":19: tiny_stages.MeetBy reads column 'languag', which nothing before it adds; "
              f"did you mean 'language'? {CHAIN} -> tiny_stages.Keep)"),
    Malformed("pubmed", "- tiny_stages.Repair", "- {use: stages.pubmed.OneDocumentPerPmid, prefer: full_text}",
              ":19: stages.pubmed.OneDocumentPerPmid reads column 'pmid', which nothing before it adds; "
              f"did you mean 'id'? {CHAIN} -> tiny_stages.Keep)"),
    Malformed("stage of a module that exists", "- tiny_stages.Repair", "- stages.text.RepairText",
              f":19: stages.text.RepairText {UNBUILT}"),
]  # fmt: skip

ALL = [*COMMON, *FILE, *VALUES, *GRAPH, *STAGES, *PATHS, *DATASET]
