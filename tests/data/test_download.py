from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.data.file_server import FileServer, Route
from volta.core.errors import MissingDataError
from volta.data.download import Checksum, download

BODY = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
OTHER = bytes(len(BODY))
MD5 = Checksum("md5", hashlib.md5(BODY).hexdigest())


def bring(target: Path, *urls: str, **options: object) -> Path:
    settings = {"size": len(BODY), "checksum": MD5, "pause": 0.0, "timeout": 5.0} | options
    return download(urls, target, **settings)


def test_good_file_arrives_with_progress_and_is_not_fetched_twice(server: FileServer, root: Path) -> None:
    url = server.add("/good", BODY)
    seen: list[tuple[str, int, int]] = []
    target = bring(root / "deep" / "file.bin", url, progress=lambda *args: seen.append(args))
    assert target.read_bytes() == BODY
    assert seen[0] == ("file.bin", 0, len(BODY))
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert not (target.parent / "file.bin.part").exists()
    bring(target, url)
    assert len(server.requests) == 1


def test_a_damaged_target_is_fetched_again(server: FileServer, root: Path) -> None:
    (root / "file").write_bytes(OTHER)
    assert bring(root / "file", server.add("/good", BODY)).read_bytes() == BODY


def test_cut_connection_is_resumed_where_it_stopped(server: FileServer, root: Path) -> None:
    url = server.add("/cut", Route(BODY, cut_after=100_000, cuts=2))
    assert bring(root / "file", url).read_bytes() == BODY
    first, second, third = server.ranges_asked("/cut")
    assert first is None
    assert second == "bytes=100000-"
    assert third == "bytes=200000-"


def test_a_later_call_goes_on_with_the_bytes_of_an_earlier_one(server: FileServer, root: Path) -> None:
    (root / "file.part").write_bytes(BODY[:123_456])
    assert bring(root / "file", server.add("/good", BODY)).read_bytes() == BODY
    assert server.ranges_asked("/good") == ["bytes=123456-"]


def test_a_server_without_ranges_starts_over(server: FileServer, root: Path) -> None:
    (root / "file.part").write_bytes(BODY[:1000])
    assert bring(root / "file", server.add("/whole", Route(BODY, ranges=False))).read_bytes() == BODY


def test_a_whole_part_file_needs_no_request(server: FileServer, root: Path) -> None:
    (root / "file.part").write_bytes(BODY)
    assert bring(root / "file", server.add("/good", BODY)).read_bytes() == BODY
    assert server.requests == []


def test_alien_bytes_in_the_part_file_cost_one_whole_transfer(server: FileServer, root: Path) -> None:
    (root / "file.part").write_bytes(b"x" * 5000)
    assert bring(root / "file", server.add("/good", BODY)).read_bytes() == BODY
    assert server.ranges_asked("/good") == ["bytes=5000-", None]


def test_404_then_mirror(server: FileServer, root: Path) -> None:
    missing = f"{server.address}/gone"
    assert bring(root / "file", missing, server.add("/mirror", BODY)).read_bytes() == BODY
    assert [path for path, _ in server.requests] == ["/gone", "/mirror"]


def test_wrong_hash_then_mirror(server: FileServer, root: Path) -> None:
    urls = server.add("/wrong", OTHER), server.add("/mirror", BODY)
    assert bring(root / "file", *urls).read_bytes() == BODY


def test_a_mirror_goes_on_where_the_first_address_broke_off(server: FileServer, root: Path) -> None:
    broken = server.add("/broken", Route(BODY, cut_after=50_000, cuts=1))
    server.routes["/broken"].status = 200
    first = server.routes["/broken"]

    def progress(name: str, done: int, size: int) -> None:
        if done == 50_000:
            first.status = 500

    assert bring(root / "file", broken, server.add("/mirror", BODY), progress=progress).read_bytes() == BODY
    assert server.ranges_asked("/mirror") == ["bytes=50000-"]


def test_passing_failures_are_tried_again(server: FileServer, root: Path) -> None:
    assert bring(root / "file", server.add("/busy", Route(BODY, failures=2))).read_bytes() == BODY


def test_an_answer_without_length_is_still_checked(server: FileServer, root: Path) -> None:
    url = server.add("/unannounced", Route(BODY, announce_length=False))
    assert bring(root / "file", url).read_bytes() == BODY


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (Route(OTHER), "its md5 is"),
        (Route(BODY[:-1]), "it sends a file of 299,999 bytes, expected 300,000"),
        (Route(b"<html>"), "it sends a file of 6 bytes"),
        (Route(BODY + b"x", announce_length=False), "it sends more than the expected 300,000 bytes"),
        (Route(status=404), "HTTP 404"),
        (Route(BODY, length="many"), "it sends a file of 'many' bytes, which is no number"),
        (Route(BODY, length="-5"), "which is no number"),
        (Route(BODY, length="9" * 5000), "which is no number"),
        (Route(BODY, cut_after=0, cuts=99), "connection closed after 0 of 300,000 bytes"),
    ],
)
def test_failure_says_why_and_leaves_no_target(server: FileServer, root: Path, route: Route, said: str) -> None:
    with pytest.raises(MissingDataError, match=said) as caught:
        bring(root / "file", server.add("/bad", route))
    assert MD5.digest in str(caught.value)
    assert not (root / "file").exists()


def test_a_lying_range_is_refused_and_the_kept_bytes_stay(server: FileServer, root: Path) -> None:
    (root / "file.part").write_bytes(BODY[:1000])
    with pytest.raises(MissingDataError, match=r"another range.*1,000 bytes are kept, run it again"):
        bring(root / "file", server.add("/liar", Route(BODY, wrong_range=True)))


def test_unreachable_host_and_other_schemes(root: Path, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(BODY)
    with pytest.raises(MissingDataError, match="only http and https") as caught:
        bring(root / "file", "http://127.0.0.1:9/x", (tmp_path / "local").as_uri())
    assert "refused" in str(caught.value)
