"""Commands killed at random moments: what they had finished is kept, what they leave is swept, nothing goes on alone."""
