from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.genuine import encode, tar, zipped
from volta.core.errors import InputError, MissingDataError
from volta.data.images import BadImageError, decode, decode_all, encoding, list_images

RAMP = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
NOISE = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def test_rgb_is_kept_bit_for_bit_and_webp_reads() -> None:
    assert np.array_equal(decode(encode(RAMP)), RAMP)
    assert np.array_equal(decode(encode(RAMP, "WEBP", lossless=True)), RAMP)


def test_the_encoding_is_told_by_the_bytes() -> None:
    # An odd-sized chunk of metadata before the pixels: chunks are padded to even lengths.
    described = {"lossless": True, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0", "icc_profile": b"odd"}
    kinds = {
        "JPEG": encode(NOISE, "JPEG"),
        "PNG, lossless": encode(NOISE),
        "BMP, lossless": encode(NOISE, "BMP"),
        "TIFF": encode(NOISE, "TIFF"),
        "WebP": encode(NOISE, "WEBP", quality=50),
        "WebP, lossless": encode(NOISE, "WEBP", **described),
        "unknown kind": b"junk",
    }
    assert {name: encoding(data) for name, data in kinds.items()} == {name: name for name in kinds}
    assert encoding(encode(NOISE, "WEBP", lossless=True)) == "WebP, lossless"


def test_grey_bilevel_and_palette_become_three_channels() -> None:
    grey = np.arange(48, dtype=np.uint8).reshape(8, 6)
    assert np.array_equal(decode(encode(grey)), np.repeat(grey[..., None], 3, axis=2))
    assert decode(encode(grey, mode="1")).max() == 255
    assert decode(encode(RAMP, mode="P")).shape == (8, 6, 3)


def test_sixteen_bits_become_eight_by_257() -> None:
    grey = np.array([[0, 257, 65535], [128, 129, 25700]], np.uint16)
    expected = np.array([[0, 1, 255], [0, 1, 100]], np.uint8)
    assert np.array_equal(decode(encode(grey))[..., 0], expected)


def test_alpha_is_laid_over_white() -> None:
    half = np.zeros((2, 2, 4), np.uint8)
    half[0, 0] = (200, 0, 0, 255)
    half[1, 1] = (0, 0, 0, 51)
    seen = decode(encode(half))
    assert seen[0, 0].tolist() == [200, 0, 0]
    assert seen[0, 1].tolist() == [255, 255, 255]
    assert seen[1, 1].tolist() == [204, 204, 204]


def test_cmyk_is_converted() -> None:
    ink = Image.new("CMYK", (4, 4), (0, 255, 255, 0))
    buffer = io.BytesIO()
    ink.save(buffer, "JPEG", quality=100)
    red = decode(buffer.getvalue())[0, 0].astype(int)
    assert red[0] > 245
    assert max(red[1:]) < 10


@pytest.mark.parametrize(
    ("orientation", "turn"), [(1, lambda a: a), (3, lambda a: np.rot90(a, 2)), (6, lambda a: np.rot90(a, -1))]
)
def test_exif_rotation_is_applied(orientation: int, turn) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(decode(encode(RAMP, exif=exif)), turn(RAMP))


def test_size_scales_to_cover_and_crops_the_centre() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert np.array_equal(decode(encode(wide), (10, 10)), np.full((10, 10, 3), 255, np.uint8))


@pytest.mark.parametrize(
    "data", [b"", b"hello", encode(NOISE)[:900], encode(NOISE, "JPEG")[:300], b"\x89PNG\r\n\x1a\n" + bytes(40)]
)
def test_damaged_bytes_are_bad_images(data: bytes) -> None:
    with pytest.raises(BadImageError):
        decode(data)


def test_float_pixels_and_too_many_pixels_are_refused() -> None:
    with pytest.raises(BadImageError, match="floating-point"):
        decode(encode(np.zeros((4, 4), np.float32), "TIFF"))
    with pytest.raises(BadImageError, match="6×8 pixels, more than 47"):
        decode(encode(RAMP), max_pixels=47)


def test_formats_outside_the_list_are_refused() -> None:
    with pytest.raises(BadImageError, match="no JPEG, PNG, WebP"):
        decode(encode(RAMP, "GIF"))


def files() -> dict[str, bytes]:
    return {
        "b/2.png": encode(RAMP),
        "a/1.PNG": encode(RAMP + 1),
        "a/notes.txt": b"x",
        ".hidden/3.png": b"x",
        "__MACOSX/a/._1.png": b"x",
        "a/Thumbs.db": b"x",
    }


@pytest.mark.parametrize("kind", ["folder", "zip", "tar", "tar.gz"])
def test_folder_zip_and_tar_list_and_decode_alike(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"set.{kind}"
    if kind == "folder":
        for name, content in files().items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(content)
    else:
        source.write_bytes(zipped(files()) if kind == "zip" else tar(files(), kind.partition(".")[2]))
    listed = list_images(source)
    assert sorted(listed.names) == ["a/1.PNG", "b/2.png"]
    assert listed.ignored == ("a/notes.txt",)
    found = decode_all(listed, ["b/2.png", "a/1.PNG"], into=tmp_path / "out.npy")
    assert isinstance(found.array, np.memmap)
    assert np.array_equal(found.array, np.stack([RAMP, RAMP + 1]).transpose(0, 3, 1, 2))
    assert (found.rows, found.bad) == ([0, 1], {})
    assert found.encodings == {"PNG, lossless": 2}


def test_bad_images_are_listed_by_name_and_skipped_only_on_request(tmp_path: Path) -> None:
    source = tmp_path / "set.zip"
    source.write_bytes(zipped({"a/1.png": encode(RAMP), "a/2.png": b"junk", "b/3.jpg": b""}))
    listed = list_images(source)
    with pytest.raises(InputError, match=r"2 images cannot be used: a/2.png: .*b/3.jpg: .*--skip-bad"):
        decode_all(listed, sorted(listed.names))
    found = decode_all(listed, sorted(listed.names), skip_bad=True)
    assert found.rows == [0]
    assert sorted(found.bad) == ["a/2.png", "b/3.jpg"]
    assert np.array_equal(found.array[0].transpose(1, 2, 0), RAMP)


def test_mixed_sizes_name_both_and_the_option(tmp_path: Path) -> None:
    source = tmp_path / "set.zip"
    source.write_bytes(zipped({"a/1.png": encode(RAMP), "a/2.png": encode(RAMP[:4])}))
    listed = list_images(source)
    with pytest.raises(InputError, match=r"a/1.png is 8×6, a/2.png is 4×6; .*--image-size"):
        decode_all(listed, sorted(listed.names))
    assert decode_all(listed, sorted(listed.names), size=(5, 5)).array.shape == (2, 3, 5, 5)


def test_a_damaged_member_of_a_zip_is_a_bad_image(tmp_path: Path) -> None:
    content = bytearray(zipped({"a/1.png": encode(RAMP), "a/2.png": encode(RAMP)}))
    content[60] ^= 0xFF
    (tmp_path / "set.zip").write_bytes(bytes(content))
    listed = list_images(tmp_path / "set.zip")
    with pytest.raises(InputError, match=r"1 image cannot be used: a/1.png"):
        decode_all(listed, sorted(listed.names))


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="does not exist"):
        list_images(tmp_path / "nothing")
    (tmp_path / "x.zip").write_bytes(b"not a zip at all")
    with pytest.raises(InputError, match="neither a folder nor a whole zip or tar"):
        list_images(tmp_path / "x.zip")


def test_a_folder_that_links_to_itself_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "s/a").mkdir(parents=True)
    (tmp_path / "s/a/1.png").write_bytes(encode(RAMP))
    (tmp_path / "s/a/loop").symlink_to(tmp_path / "s", target_is_directory=True)
    assert list_images(tmp_path / "s").names == ("a/1.png",)
