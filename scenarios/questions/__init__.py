"""Questions that take several runs to answer."""
