"""Small archives in each official format, made by the tests, and a real HTTP server on loopback."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from retrax.datasets import REGISTRY


def pgm(image: np.ndarray) -> bytes:
    height, width = image.shape
    return f"P5\n{width} {height}\n255\n".encode() + image.tobytes()


def png(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()


def idx(array: np.ndarray) -> bytes:
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


class Archives:
    """Writes miniature data sets into a folder; each method returns what the loader must give back."""

    pgm, png = staticmethod(pgm), staticmethod(png)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.random = np.random.default_rng(5)

    def images(self, *shape: int) -> np.ndarray:
        return self.random.integers(0, 256, shape, dtype=np.uint8)

    def zip(self, file: str, members: dict[str, bytes]) -> Path:
        with zipfile.ZipFile(self.folder / file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return self.folder / file

    def tar(self, file: str, members: dict[str, bytes]) -> Path:
        with tarfile.open(self.folder / file, "w:gz") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return self.folder / file

    def npz(self, name: str, **arrays: np.ndarray) -> Path:
        path = self.folder / f"{name}.npz"
        np.savez_compressed(path, **arrays)
        return path

    def mnist(self, n: int = 7) -> tuple[np.ndarray, np.ndarray]:
        images, labels = self.images(n, 28, 28), self.images(n) % 10
        for file, array in (("train-images-idx3", images), ("train-labels-idx1", labels)):
            (self.folder / f"{file}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
        return images, labels

    def covtype(self, n: int = 6) -> tuple[np.ndarray, np.ndarray]:
        features, labels = self.random.integers(-173, 7174, (n, 54)), self.random.integers(1, 8, n)
        rows = (",".join(map(str, (*row, label))) for row, label in zip(features, labels, strict=True))
        (self.folder / "covtype.data.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
        return features, labels

    def yaleb(self) -> tuple[np.ndarray, np.ndarray]:
        images = self.images(3, 192, 168)
        names = ("yaleB01_P00A+000E+00", "yaleB01_P00A-110E+65", "yaleB39_P00A+050E-40")
        members = {f"CroppedYale/{n[:7]}/{n}.pgm": pgm(i) for n, i in zip(names, images, strict=True)}
        members["CroppedYale/yaleB01/yaleB01_P00_Ambient.pgm"] = pgm(self.images(24, 32))
        members["CroppedYale/yaleB11/yaleB11_P00A+050E-40.pgm.bad"] = pgm(self.images(192, 168))
        members["__MACOSX/CroppedYale/yaleB01/._yaleB01_P00A+000E+00.pgm"] = b"resource fork"
        members["CroppedYale/yaleB01/yaleB01_P00.info"] = b"yaleB01_P00A+000E+00.pgm\n"
        self.zip("CroppedYale.zip", dict(reversed(members.items())))
        return images, np.array([1, 1, 39])

    def cifar100(self) -> tuple[np.ndarray, np.ndarray]:
        colour, fine = self.images(5, 3, 32, 32), np.array([3, 99, 0, 7, 7], dtype=np.uint8)
        records = [bytes([9, label]) + planes.tobytes() for label, planes in zip(fine, colour, strict=True)]
        members = {
            "cifar-100-binary/test.bin": b"".join(records[3:]),
            "cifar-100-binary/fine_label_names.txt": b"apple\n",
            "cifar-100-binary/train.bin": b"".join(records[:3]),
        }
        self.tar("cifar-100-binary.tar.gz", members)
        red, green, blue = colour.astype(float).transpose(1, 0, 2, 3)
        return 0.2989 * red + 0.5870 * green + 0.1140 * blue, fine

    def coil100(self) -> tuple[np.ndarray, np.ndarray]:
        keys = [(1, 0), (1, 5), (1, 10), (2, 0), (10, 355)]
        images = self.images(5, 128, 128, 3)
        members = {f"coil-100/obj{o}__{a}.png": png(i) for (o, a), i in zip(keys, images, strict=True)}
        members["coil-100/convertGroupppm2png.pl"] = b"#!/usr/bin/perl"
        self.zip("coil-100.zip", dict(sorted(members.items())))
        small = images.reshape(5, 32, 4, 32, 4, 3).mean(axis=(2, 4))
        return small, np.array([o for o, _ in keys])

    def kylberg(self) -> tuple[np.ndarray, np.ndarray]:
        files = [archive.file for archive in REGISTRY["kylberg"].archives]
        images = self.images(len(files), 2, 16, 16)
        for file, pair in zip(files, images, strict=True):
            texture = file.split("-")[0]
            self.zip(file, {f"{texture}/{texture}-a-p{k:03}.png": png(pair[k]) for k in range(2)})
        return images.reshape(-1, 16, 16), np.repeat(np.arange(len(files)), 2)

    def wordnet(self) -> dict[str, np.ndarray]:
        """Six synsets: two words in the first, an instance, two parents, and pointers that are no hypernyms."""
        lines = [
            "  1 This software and database is being provided to you",
            "00001740 03 n 02 entity 0 thing 0 001 ~ 00001930 n 0000 | that which is perceived",
            '00001930 03 n 01 animal 0 002 @ 00001740 n 0000 ~ 00002137 n 0000 | a living thing; "@ 0"',
            "00002137 05 n 01 dog 0 003 @ 00001930 n 0000 #m 00001740 n 0000 @ 00002684 n 0000 | man's best friend",
            "00002684 03 n 01 pet 1 001 @ 00001740 n 0000 | kept at home",
            "00003553 18 n 01 Laika 0 001 @i 00002137 n 0000 | the first in orbit",
            "00004475 03 n 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 001 @ 00002684 n 0000 | ten words: hexadecimal",
        ]
        self.tar("WNdb-3.0.tar.gz", {"dict/data.verb": b"x", "dict/data.noun": "\n".join(lines).encode()})
        names = ["entity#00001740", "animal#00001930", "dog#00002137", "pet#00002684", "Laika#00003553", "a#00004475"]
        edges = np.array([(1, 0), (2, 1), (2, 3), (3, 0), (4, 2), (5, 3)])
        return {"names": np.array(names, dtype="S"), "hypernym_edges": edges}

    def movielens(self) -> dict[str, np.ndarray]:
        lines = ["userId,movieId,rating,timestamp", "1,31,2.5,12", "1,1029,3.0,13", "7,31,4.0,14", "3,6,0.5,15"]
        self.zip("ml-latest-small.zip", {"ml-latest-small/ratings.csv": "\r\n".join(lines).encode()})
        return {
            "user": np.array([0, 0, 2, 1]),
            "item": np.array([1, 2, 1, 0]),
            "rating": np.array([2.5, 3, 4, 0.5]),
            "timestamp": np.array([12, 13, 14, 15]),
        }

    def emg(self) -> dict[str, np.ndarray]:
        channels = self.images(40, 8)
        rows = [
            f"{4 * i},{','.join(map(str, c))},{'rock' if i % 3 else 'ok'},mg_s{i % 2}" for i, c in enumerate(channels)
        ]
        text = "\n".join([f"time,{','.join(f'c{i}' for i in range(8))},label,exp", *rows]) + "\n"
        (self.folder / "emg.csv").write_text(text)
        numbers = np.arange(40)
        return {"channels": channels, "time": 4 * numbers, "label": numbers % 3 > 0, "session": numbers % 2}

    def mfeat(self) -> dict[str, np.ndarray]:
        widths = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
        views = {name: np.round(self.random.normal(size=(20, width)), 3) for name, width in widths.items()}
        texts = {name: "\n".join(" ".join(map(str, row)) for row in view) for name, view in views.items()}
        self.zip("multiple+features.zip", {f"mfeat-{name}": text.encode() for name, text in texts.items()})
        return {**views, "labels": np.arange(20) // 2}


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    folder = tmp_path / "data"
    folder.mkdir()
    return Archives(folder)


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path.startswith("/truncated/"):
            return super().do_GET()
        content = Path(self.directory, self.path.rsplit("/", 1)[1]).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True
        return None

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Archives, str]]:
    """A folder of archives and the address at which it is served."""
    monkeypatch.setenv("NO_PROXY", "*")
    folder = tmp_path / "served"
    folder.mkdir()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield Archives(folder), f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()
    thread.join(timeout=5)
