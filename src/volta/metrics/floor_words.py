"""The floor of an ECE in words, as it stands beside an ECE wherever one is printed."""

FLOOR_METRICS = ("ece_floor", "ece_floor_low", "ece_floor_high")
"""Mean, lower and upper end of what stands beside an ECE."""


def show_floor(floor: float, low: float, high: float, decimals: int = 4) -> str:
    """Return the ECE of a perfectly calibrated predictor as printed beside an ECE: its mean and 95 % range.

    >>> show_floor(0.0068, 0.0041, 0.01)
    'floor 0.0068, 0.0041–0.0100'
    """
    mean, least, most = (f"{value:.{decimals}f}" for value in (floor, low, high))
    return f"floor {mean}, {least}–{most}"
