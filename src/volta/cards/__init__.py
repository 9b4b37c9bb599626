"""Model cards: what a fitted classifier is, what it promises, and what it does not."""
