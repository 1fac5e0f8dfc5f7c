"""Trains the model of `extractor: fast` on all pages and writes it into the package: `make model`."""

from benchmarks.extract_fast import texts_of
from benchmarks.main_text.pages import load_pages
from benchmarks.main_text.train import Trainer, prepare
from stages.html import ExtractHtml
from stages.main_text import MODEL, save_model

if __name__ == "__main__":
    pages = load_pages()
    trainer = Trainer(prepare(pages, texts_of(pages, ExtractHtml(extractor="trafilatura"))))
    save_model(trainer.train(trainer.cross_validate()), MODEL)
    print(f"{MODEL}: {MODEL.stat().st_size} bytes")
