"""Tools of the repository itself: budgets, words, the demo, generated pages."""
