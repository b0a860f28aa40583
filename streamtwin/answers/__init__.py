"""How answers are shown: one presentation a question, for the terminal, the folder, the page and the notebook."""
