from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from volta.core.errors import StoreError
from volta.core.files import atomic_path, remove_temp_files, reserve_npy, temp_folder, write_rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs flock")

KILLED = """
import os, sys
sys.path[:] = {path!r}
from pathlib import Path
from volta.core.files import atomic_path
from volta.core.files import temp_folder
with temp_folder(Path({folder!r})) as folder, atomic_path(Path({folder!r}) / "record.json") as file:
    (folder / "half").write_text("half")
    file.write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED.format(path=sys.path, folder=str(tmp_path))], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    assert len(remove_temp_files(tmp_path)) == 2
    assert not list(tmp_path.iterdir())


def test_what_lives_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / ".old.json.x.part").write_text("")
    with temp_folder(tmp_path) as folder, atomic_path(tmp_path / "deep" / "new.json") as file:
        assert remove_temp_files(tmp_path) == []
        assert remove_temp_files(tmp_path, deep=True) == [tmp_path / "deep" / ".old.json.x.part"]
        assert folder.is_dir()
        assert file.is_file()
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "new.json"}


def test_links_and_other_files_are_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "array.npy.part").write_text("kept for resuming")
    (tmp_path / "target").mkdir()
    (tmp_path / ".part-link").symlink_to(tmp_path / "target")
    assert remove_temp_files(tmp_path, deep=True) == []


@pytest.mark.timeout(60)
def test_a_pipe_called_as_a_leftover_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".x.json.part")
    assert remove_temp_files(tmp_path) == [tmp_path / ".x.json.part"]
    assert not list(tmp_path.iterdir())


def test_folders_within_folders_without_end(tmp_path: Path) -> None:
    for name in (".part-x", "deep"):
        place = tmp_path / name
        place.mkdir()
        for _ in range(6):
            place = place.joinpath(*["d"] * 200)
            place.mkdir(parents=True)
    try:
        remove_temp_files(tmp_path, deep=True)
        assert (tmp_path / "deep").is_dir()
    finally:
        # Python's own removal goes no deeper than it can call itself.
        subprocess.run(["rm", "-rf", tmp_path / ".part-x", tmp_path / "deep"], check=True)


def test_reserved_space_is_written_and_read_back(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.int16).reshape(4, 3)
    array = reserve_npy(tmp_path / "a.npy", values.dtype, values.shape)
    array[:] = values
    array.flush()
    write_rows(tmp_path / "b.npy", values.dtype, values.shape, iter([values[:1], values[1:]]))
    np.save(tmp_path / "c.npy", values)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()


FULL = """
import resource, sys
sys.path[:] = {path!r}
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
from volta.cli import main
sys.argv[1:] = {arguments!r}
main()
"""


def run_without_room(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where no file can grow beyond 1 MiB, as on a disk that is full by then."""
    code = FULL.format(path=sys.path, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


# Over two seconds: the limit on a file's size holds for a process.
def test_an_import_without_room_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(3000, 200)).astype(np.float32), y=np.arange(3000) % 3)
    done = run_without_room("data", "import", str(tmp_path / "a.npz"), "--name", "a", "--data", str(tmp_path / "data"))
    assert (done.returncode, "make room or name another folder" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "data" / "imported").iterdir())


# slow: a process, as for arrays, which is run every time
@pytest.mark.slow
def test_images_without_room(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(12):
        place = tmp_path / "images" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (200, 200, 3), dtype=np.uint8)).save(place / f"{number}.png")
    done = run_without_room("data", "import", str(tmp_path / "images"), "--name", "a", "--data", str(tmp_path / "data"))
    assert (done.returncode, "make room or name another folder" in done.stderr) == (2, True), done.stderr
    assert not list((tmp_path / "data" / "imported").iterdir())


def test_a_write_beyond_the_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"a\.npy cannot be written: .*; make room"):
        reserve_npy(tmp_path / "a.npy", np.dtype(np.uint8), (1 << 60,))
    assert not list(tmp_path.iterdir())
