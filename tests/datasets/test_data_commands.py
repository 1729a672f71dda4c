"""The command `retrax data`, as the main command would call it."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from retrax.datasets import REGISTRY, DataError
from retrax.datasets.commands import add_parser
from retrax.datasets.progress_display import reporting


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["data", *map(str, words)])
    return args.run(args)


def test_list(archives, capsys):
    archives.mnist()
    assert run("list", "--data", archives.folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"data folder: {archives.folder}"
    assert len(lines) == 1 + len(REGISTRY)
    assert "train-images-idx3-ubyte.gz" in lines[1]
    assert "missing" in lines[5]
    assert REGISTRY["coil100"].origin in lines[5]


def test_list_on_a_terminal(archives, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("list", "--data", archives.folder) == 0
    assert "coil100" in capsys.readouterr().out


def test_verify(archives, capsys):
    archives.npz("yaleb", images=archives.images(3, 9, 7), labels=np.arange(3))
    assert run("verify", "--data", archives.folder) == 0
    out = capsys.readouterr().out
    assert out.startswith("yaleb: ok, 3 images read, no checksum known; part: 3 of 2414 images")


def test_verify_reports_every_data_set_and_fails(archives, capsys):
    archives.npz("yaleb", images=archives.images(3, 9, 7), labels=np.arange(3))
    (archives.folder / "coil100.npz").write_bytes(b"rubbish")
    with pytest.raises(DataError, match=r"1 of 2 data sets failed: coil100: .*damaged"):
        run("verify", "--data", archives.folder)
    assert capsys.readouterr().out.splitlines()[1] == "coil100: FAILED"
    with pytest.raises(DataError, match="unknown data set"):
        run("verify", "nothing", "--data", archives.folder)


def test_verify_without_data(tmp_path):
    with pytest.raises(DataError, match="no data set"):
        run("verify", "--data", tmp_path)


def test_fetch_with_plain_progress(server, tmp_path, capsys):
    served, url = server
    served.yaleb()
    assert run("fetch", "yaleb", "--mirror", url, "--data", tmp_path / "d") == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(tmp_path / "d" / "CroppedYale.zip")
    assert captured.err.splitlines()[-1] == "CroppedYale.zip: 100 %"


def test_features(archives, capsys, tmp_path):
    archives.npz("yaleb", images=archives.images(3, 40, 40), labels=np.arange(3))
    words = ("features", "yaleb", "--data", archives.folder, "--cache", tmp_path / "cache")
    assert run(*words) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("yaleb: 3×43×43, 3 region covariances")
    assert "100 %" in captured.err
    assert run(*words, "--kind", "gradient") == 0
    assert "5×5" in capsys.readouterr().out
    with pytest.raises(DataError, match="coil100 is not in"):
        run("features", "coil100", "--data", archives.folder)


def test_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with reporting("work") as report:
        report(1, 2)
        report(2, 2)
    assert "work" in capsys.readouterr().err
