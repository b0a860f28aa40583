"""Questions of the command line, in Python and on the page: a class each, of which all three are made."""
