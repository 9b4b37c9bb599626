"""The nineteen corruptions of CIFAR-10-C at five severities, for images of any size from 8×8 on.

They stand in for the published archive where it is absent, and give the user's own images the same treatment.
The constants are those of the public CIFAR-10-C recipe (Hendrycks & Dietterich 2019); the departures, named
where they occur: frost is drawn rather than photographed, motion blur and spatter are computed by NumPy and
SciPy instead of ImageMagick and OpenCV, and every random number is seeded by image.
"""

from volta.data.corruptions.common import SEVERITIES, Corruption
from volta.data.corruptions.corrupt import CORRUPTION_NAMES, CORRUPTIONS, contact_sheet, corrupt

__all__ = ["CORRUPTIONS", "CORRUPTION_NAMES", "SEVERITIES", "Corruption", "contact_sheet", "corrupt"]
