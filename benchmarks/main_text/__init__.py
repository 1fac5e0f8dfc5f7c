"""How the model of `extractor: fast` is made and measured: pages with gold, labels, folds by site, training, scores."""
