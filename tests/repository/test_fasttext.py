"""`import fasttext` trains and predicts under the installed numpy.

The original bindings fail in `predict` from numpy 2 on, and a predict-only build cannot train: both take the same name.
"""

from pathlib import Path

import fasttext
import numpy as np


def test_it_trains_predicts_saves_and_loads(tmp_path: Path) -> None:
    examples = tmp_path / "examples.txt"
    medical = "__label__medical patients received the treatment in a randomized trial\n"
    other = "__label__other the match ended in a draw after extra time\n"
    examples.write_text((medical + other) * 50, "utf-8")
    model = fasttext.train_supervised(input=str(examples), epoch=25, lr=0.5, dim=8, thread=1, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))

    loaded = fasttext.load_model(str(tmp_path / "model.bin"))
    labels, scores = loaded.predict("the patients in this trial", k=2)
    assert labels[0] == "__label__medical"
    assert isinstance(scores, np.ndarray)
    assert scores.shape == (2,)
    batch_labels, _ = loaded.predict(["a randomized trial", "a draw after the match"])
    assert [labels[0] for labels in batch_labels] == ["__label__medical", "__label__other"]
