"""SVHN's test digits as published."""

from __future__ import annotations

from volta.data.download.archive import Archive
from volta.data.download.transfer import Checksum
from volta.data.formats.svhn_matlab import read_svhn
from volta.data.published.image_set import ImageSet

_ZIP = "svhn-test-images.zip"

SVHN = Archive(
    "svhn",
    "SVHN test, 26,032 cropped digits, 32×32",
    "test_32x32.mat",
    (
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
        "https://cseweb.ucsd.edu/~weijian/static/datasets/svhn/test_32x32.mat",
    ),
    64_275_384,
    Checksum("md5", "eb5a983be6a315427106f1b164d9cef3"),
    "non-commercial use only, cite Netzer et al. 2011",
    "http://ufldl.stanford.edu/housenumbers/",
    stand_ins=(_ZIP,),
)

SVHN_TEST = ImageSet("SVHN test", 26_032, SVHN, _ZIP, "test", lambda path: (read_svhn(path), ()))
