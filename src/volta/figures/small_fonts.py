"""A small copy of Matplotlib's own font, for figures: cutting letters out of the whole one costs more than drawing.

Into every PDF Matplotlib puts the letters it needs of DejaVu Sans, and cuts them out of 6,241 glyphs with layout tables
for many scripts: 0.15 s a time, three times a figure. From a copy with the usual letters and without those tables it
takes 0.02 s. The copy has a family name of its own, so that nobody else's figures change; letters that it lacks come
from DejaVu Sans.
"""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from volta.core.files import write_atomic

FAMILY = "VOLTA Sans"
WHOLE = "DejaVu Sans"
WEIGHTS = ("normal", "bold")
KEPT = (range(0x20, 0x180), range(0x370, 0x460), range(0x2010, 0x2050), range(0x2070, 0x20A0), range(0x2190, 0x2270))
"""Latin, Greek and Cyrillic; punctuation, small figures, arrows and mathematics."""
_DROPPED_TABLES = ("GSUB", "GPOS", "GDEF", "MATH", "FFTM")
_FAMILY_NAME, _TYPOGRAPHIC_FAMILY = 1, 16


_given: list[Path] = []


@cache
def _own_folder() -> Path:
    folder = Path(mkdtemp(prefix="volta-fonts-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


def fonts_folder() -> Path:
    """Return the folder of the copies: that of the process that started this one, or one that ends with this one."""
    return _given[-1] if _given else _own_folder()


def use_folder(folder: Path) -> None:
    """Share the folder of the process that started this one, and have the copies ready there."""
    _given.append(folder)
    families.cache_clear()
    families()


@cache
def families() -> tuple[str, ...]:
    """Return the names of the fonts to draw with, best first; the small one is made and made known on the first call.

    Without room for it, or where Matplotlib has another font, the whole font alone draws.
    """
    from matplotlib.font_manager import fontManager

    try:
        for weight in WEIGHTS:
            path = fonts_folder() / f"{weight}.ttf"
            if not path.is_file():
                _make(path, weight)
            fontManager.addfont(path)
    except (OSError, ValueError):
        return (WHOLE,)
    return FAMILY, WHOLE


def _make(path: Path, weight: str) -> None:
    from fontTools import subset
    from matplotlib.font_manager import FontProperties, findfont

    whole = findfont(FontProperties(family=WHOLE, weight=weight), fallback_to_default=False)
    options = subset.Options(layout_features=[], name_IDs=["*"], notdef_outline=True, glyph_names=True)
    options.drop_tables += _DROPPED_TABLES
    with subset.load_font(whole, options) as font:
        maker = subset.Subsetter(options)
        maker.populate(unicodes=[code for codes in KEPT for code in codes])
        maker.subset(font)
        for record in font["name"].names:
            if record.nameID in (_FAMILY_NAME, _TYPOGRAPHIC_FAMILY):
                record.string = FAMILY
        write_atomic(path, lambda file: font.save(file, reorderTables=None))
