"""How answers are told: one presentation a question, for the terminal, the folder, the page and the notebook."""
