"""What a request says: wishes, denials, steps, limits of offers, spelling and synonyms, per language."""
