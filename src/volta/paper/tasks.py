"""The tasks on which the paper's claims are judged."""

PAPER_TASKS = ("cifar10", "cifar100", "tinyimagenet")
"""The tasks of the paper, by the names the benchmark runs them under."""
STAND_IN = "digits"
"""The embedded task, which stands in for them where nothing is downloaded."""
CLAIM_TASKS = frozenset((*PAPER_TASKS, STAND_IN))
"""Where a claim of the paper is judged; other data get a leaderboard, since the paper says nothing about them."""
