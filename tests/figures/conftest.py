from __future__ import annotations

from unittest import mock

import pytest

from tests.conftest import PDF_SETTINGS
from volta.figures import draw


@pytest.fixture(autouse=True, scope="module")
def _letters_of_fonts():
    """Draw as a user's figures are drawn, fonts in PDFs included."""
    with mock.patch.dict(draw._SETTINGS, PDF_SETTINGS):
        yield
