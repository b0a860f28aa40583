"""How much random ordinary jobs bear: exact runs, `twin capacity`, and the rate model beside each other."""
