from __future__ import annotations

import io
import os
import tarfile

import pytest

from osmosis.wire.errors import RunFailed
from osmosis.worker.code_archive import unpack


def archive(path, *members):
    """``members``: (name, bytes | ("link", target) | ("hard", target) | "pipe" | "dir")."""
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                info.mode = 0o755 if name.endswith(".sh") else 0o644
                tar.addfile(info, io.BytesIO(content))
                continue
            if isinstance(content, tuple):
                info.type = tarfile.SYMTYPE if content[0] == "link" else tarfile.LNKTYPE
                info.linkname = content[1]
            else:
                info.type = tarfile.FIFOTYPE if content == "pipe" else tarfile.DIRTYPE
            tar.addfile(info)
    return path


def test_files_keep_their_content_and_whether_they_can_be_executed(tmp_path):
    tar = archive(tmp_path / "a.tar", ("a/b.txt", b"one"), ("a/run.sh", b"two"), ("empty", "dir"))
    assert unpack(tar, tmp_path / "out") == []
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"one"
    assert os.access(tmp_path / "out/a/run.sh", os.X_OK)
    assert not os.access(tmp_path / "out/a/b.txt", os.X_OK)
    assert (tmp_path / "out/empty").is_dir()


def test_links_inside_stay_and_links_that_lead_out_go(tmp_path):
    (tmp_path / "secret").write_text("x")
    tar = archive(
        tmp_path / "a.tar",
        ("a/file", b"one"),
        ("good", ("link", "a/file")),
        ("absolute", ("link", "/etc/passwd")),
        ("up", ("link", "../secret")),
        ("loop", ("link", "loop")),
        ("nowhere", ("link", "a/none")),
    )
    left_out = unpack(tar, tmp_path / "out")
    assert len(left_out) == 4
    assert (tmp_path / "out/good").read_bytes() == b"one"
    for name in ("absolute", "up", "loop", "nowhere"):
        assert not os.path.lexists(tmp_path / "out" / name)


def test_links_that_lead_out_only_through_each_other_go(tmp_path):
    (tmp_path / "outside").mkdir()
    tar = archive(
        tmp_path / "a.tar",
        ("p/q/r/file", b"deep"),
        ("a/file", b"shallow"),
        ("p/q/r/x", ("link", "../../../a")),
        ("p/q/r/y", ("link", "x/../../outside")),
    )
    unpack(tar, tmp_path / "out")
    assert (tmp_path / "out/p/q/r/x").is_symlink()
    assert not os.path.lexists(tmp_path / "out/p/q/r/y")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_names_that_lead_out_are_left_out(tmp_path, name):
    tar = archive(tmp_path / "a.tar", (name, b"x"), ("ok", b"y"))
    assert len(unpack(tar, tmp_path / "out")) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ok"]
    assert not (tmp_path / "evil").exists()


def test_a_file_is_never_written_through_a_link_of_the_archive(tmp_path):
    (tmp_path / "outside").mkdir()
    tar = archive(
        tmp_path / "a.tar",
        ("door", ("link", str(tmp_path / "outside"))),
        ("door/evil", b"x"),
    )
    unpack(tar, tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


def test_pipes_and_hard_links_are_left_out(tmp_path):
    tar = archive(tmp_path / "a.tar", ("f", b"x"), ("p", "pipe"), ("h", ("hard", "f")))
    assert len(unpack(tar, tmp_path / "out")) == 2


def test_what_is_no_archive_is_said_to_be_unusable(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"no tar at all")
    with pytest.raises(RunFailed) as caught:
        unpack(tmp_path / "a.tar", tmp_path / "out")
    assert caught.value.kind == "code_unavailable"
