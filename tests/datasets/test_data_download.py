"""Downloading over a real HTTP server on loopback: checksums, failures, and what they leave behind (nothing)."""

from __future__ import annotations

import gc
import hashlib
import socket
from dataclasses import replace

import pytest

from retrax.datasets import REGISTRY, DataError, download, fetch, load, verify


def registry(name: str, url: str, folder, **changes):
    """The registry with one data set whose files are served at `url`, with the checksums of the served files."""
    archives = tuple(
        replace(
            archive,
            url=f"{url}/{archive.file}",
            of_content=False,
            sha256=hashlib.sha256((folder / archive.file).read_bytes()).hexdigest(),
        )
        for archive in REGISTRY[name].archives
    )
    archives = tuple(replace(archive, **changes) for archive in archives)
    return {name: replace(REGISTRY[name], archives=archives)}


def listing(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


@pytest.mark.parametrize("name", ["mnist", "covtype", "cifar100", "coil100"])
def test_download_with_published_checksum(server, tmp_path, name):
    served, url = server
    getattr(served, name)()
    folder = tmp_path / "new" / "folder"
    seen = []
    known = registry(name, url, served.folder)
    paths = fetch(name, folder, registry=known, progress=lambda done, total: seen.append((done, total)))
    assert [path.read_bytes() for path in paths] == [(served.folder / p.name).read_bytes() for p in paths]
    assert seen[-1][0] == seen[-1][1] == paths[-1].stat().st_size
    assert listing(folder) == sorted([p.name for p in paths] + [f"{p.name}.sha256" for p in paths])
    assert paths[0].stat().st_mode == (folder / f"{paths[0].name}.sha256").stat().st_mode
    load(name, folder)


def test_existing_files_are_not_downloaded_again(server, tmp_path):
    served, url = server
    served.covtype()
    known = registry("covtype", url, served.folder)
    (path,) = fetch("covtype", tmp_path / "d", registry=known)
    before = path.stat().st_mtime_ns
    (served.folder / path.name).unlink()
    fetch("covtype", tmp_path / "d", registry=known)
    assert path.stat().st_mtime_ns == before


def test_content_checksum_accepts_a_recompressed_file(server, tmp_path):
    import gzip

    served, url = server
    served.mnist()
    contents = {a.file: gzip.decompress((served.folder / a.file).read_bytes()) for a in REGISTRY["mnist"].archives}
    for file, content in contents.items():
        (served.folder / file).write_bytes(gzip.compress(content, compresslevel=1))
    archives = tuple(
        replace(a, sha256=hashlib.sha256(contents[a.file]).hexdigest()) for a in REGISTRY["mnist"].archives
    )
    known = {"mnist": replace(REGISTRY["mnist"], archives=archives)}
    assert len(fetch("mnist", tmp_path / "d", registry=known, base_url=url)) == 2


@pytest.mark.parametrize("of_content", [False, True])
def test_wrong_checksum_keeps_nothing(server, tmp_path, of_content):
    served, url = server
    served.covtype()
    known = registry("covtype", url, served.folder, sha256="0" * 64, of_content=of_content)
    with pytest.raises(DataError, match="wrong checksum; nothing was kept"):
        fetch("covtype", tmp_path / "d", registry=known)
    assert listing(tmp_path / "d") == []


def test_official_checksums_are_enforced_on_a_mirror(server, tmp_path):
    served, url = server
    served.coil100()
    with pytest.raises(DataError, match="wrong checksum"):
        fetch("coil100", tmp_path / "d", base_url=url)
    assert listing(tmp_path / "d") == []


def test_unpublished_checksum_is_recorded_and_compared_later(server, tmp_path):
    served, url = server
    images, _ = served.yaleb()
    (path,) = fetch("yaleb", tmp_path / "d", base_url=f"{url}/")
    record = path.with_name("CroppedYale.zip.sha256")
    assert record.read_text() == f"{hashlib.sha256(path.read_bytes()).hexdigest()}  CroppedYale.zip\n"
    assert (load("yaleb", tmp_path / "d").data == images).all()
    assert "checksum recorded at download" in verify("yaleb", tmp_path / "d")

    served.yaleb()  # other images, an intact archive, but not what was downloaded
    path.write_bytes((served.folder / "CroppedYale.zip").read_bytes())
    for check in (load, verify, fetch):
        with pytest.raises(DataError, match=r"wrong checksum .*recorded in CroppedYale.zip.sha256"):
            check("yaleb", tmp_path / "d")


def test_error_page_instead_of_a_zip_is_not_kept(server, tmp_path):
    served, url = server
    (served.folder / "CroppedYale.zip").write_text("<html>moved</html>")
    with pytest.raises(DataError, match="not an intact archive; nothing was kept"):
        fetch("yaleb", tmp_path / "d", base_url=url)
    assert listing(tmp_path / "d") == []


def test_connection_cut_off(server, tmp_path):
    served, url = server
    served.yaleb()
    with pytest.raises(DataError, match="could not download"):
        fetch("yaleb", tmp_path / "d", base_url=f"{url}/truncated")
    assert listing(tmp_path / "d") == []


def test_more_bytes_than_any_official_file_has(server, tmp_path, monkeypatch):
    served, url = server
    served.yaleb()
    monkeypatch.setattr(download, "LARGEST_DOWNLOAD", 1000)
    with pytest.raises(DataError, match="more than 1000 bytes"):
        fetch("yaleb", tmp_path / "d", base_url=url)
    assert listing(tmp_path / "d") == []


def test_a_download_that_never_ends(server, tmp_path, monkeypatch):
    served, url = server
    served.yaleb()
    monkeypatch.setattr(download, "DEADLINE", -1.0)
    with pytest.raises(DataError, match="not finished after"):
        fetch("yaleb", tmp_path / "d", base_url=url)
    assert listing(tmp_path / "d") == []


def test_not_on_the_server(server, tmp_path):
    _, url = server
    with pytest.raises(DataError, match="HTTP status 404") as caught:
        fetch("yaleb", tmp_path / "d", base_url=url)
    assert REGISTRY["yaleb"].archives[0].url in str(caught.value)
    assert listing(tmp_path / "d") == []


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DataError) as caught:
            fetch("cifar100", tmp_path / "d", base_url=address)
    message = str(caught.value)
    for words in ("cifar-100-binary.tar.gz from https://www.cs.toronto.edu", f"put it in {tmp_path / 'd'}"):
        assert words in message
    assert "\n" not in message
    assert listing(tmp_path / "d") == []


def test_interruption_keeps_nothing(server, tmp_path):
    served, url = server
    served.yaleb()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("yaleb", tmp_path / "d", base_url=url, progress=interrupt)
    gc.collect()  # a connection left open would be complained of here
    assert listing(tmp_path / "d") == []


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="could not download"):
        fetch("yaleb", tmp_path / "file")


def test_unknown_name(tmp_path):
    with pytest.raises(DataError, match="unknown data set"):
        fetch("imagenet", tmp_path)


def test_verify_enforces_published_checksums(archives):
    archives.coil100()
    with pytest.raises(DataError, match=r"coil-100.zip has the wrong checksum .*published fcb4b8b01c07"):
        verify("coil100", archives.folder)


def test_registry_is_sound():
    for source in REGISTRY.values():
        assert len({archive.file for archive in source.archives}) == len(source.archives)
        for archive in source.archives:
            assert archive.url.startswith(("https://", "http://"))
            assert archive.sha256 is None or len(bytes.fromhex(archive.sha256)) == 32
