"""Learning of cost models: corpora, training, fine-tuning."""
