"""All corruptions, collected from the files that define them: a new one is an entry in the file of its kind.

The constants are the public recipe's, kept where its severities are no ladder, so that results stay
comparable with published ones. Measured as distance to the clean image: ``elastic_transform`` grows gentler
from 1 to 5 (each severity distorts more finely, and shears less); ``glass_blur`` falls from 1 to 3 and from 4
to 5 (the blur smooths what the shuffle has roughened); ``saturate`` fades at 1 and 2 and strengthens from 3
on; ``spatter`` changes from water to mud at 4; ``frost`` darkens the image as it adds ice from 3 on, so there
the correlation with the clean image falls steadily and the distance does not grow; ``motion_blur`` is the
same at 3 and 4 but for its last, negligible taps.
"""

from __future__ import annotations

from volta.data.corruptions.blur import BLURS
from volta.data.corruptions.colour import COLOURS
from volta.data.corruptions.corruption import Corruption
from volta.data.corruptions.digital import DIGITAL
from volta.data.corruptions.fog import FOG
from volta.data.corruptions.frost import FROST
from volta.data.corruptions.noise import NOISES
from volta.data.corruptions.snow import SNOW
from volta.data.corruptions.spatter import SPATTER

_FAMILIES = NOISES | BLURS | SNOW | FROST | FOG | COLOURS | DIGITAL | SPATTER

CORRUPTIONS: dict[str, Corruption] = dict(sorted(_FAMILIES.items(), key=lambda item: item[1].extra))
"""By name, the fifteen of the benchmark first, then the extra ones."""

CORRUPTION_NAMES = tuple(CORRUPTIONS)
"""«NAME-SEVERITY» names a shift."""
