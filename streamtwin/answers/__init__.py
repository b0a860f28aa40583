"""Presentations of answers: one for each question, for the terminal, the folder, the page and the notebook."""
