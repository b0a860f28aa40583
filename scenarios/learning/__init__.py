"""Cost models: what they learn from, training, fine-tuning."""
