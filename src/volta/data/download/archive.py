"""One official file: where it lies, its size, its hash, its licence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volta.data.download.transfer import Checksum


@dataclass(frozen=True)
class Archive:
    """One official file: ``urls`` are tried in turn; a tar unpacks to ``folder``; a file read in place has none.

    ``stand_ins`` are the zips of images that are read where the file itself is not there.
    """

    name: str
    title: str
    file: str
    urls: tuple[str, ...]
    size: int
    checksum: Checksum
    licence: str
    home: str
    folder: str = ""
    stand_ins: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """What to say is missing."""
        return f"{self.folder}/ (from {self.file})" if self.folder else self.file

    def place(self, root: Path) -> Path:
        """Where the usable form lies under ``root``: the unpacked folder, or the file itself."""
        return root / (self.folder or self.file)
