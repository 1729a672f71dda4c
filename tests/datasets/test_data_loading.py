"""Each official format and the compact one, on miniature archives; and every way a file can be wrong."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retrax.datasets import REGISTRY, DataError, available, data_directory, formats, load, pca_matrix
from retrax.datasets.formats import read_pgm
from retrax.datasets.images import area_matrix, area_resize, grey, tiles

NAMES = list(REGISTRY)
TABLES = ["wordnet", "movielens", "emg", "mfeat"]
IMAGES = [name for name in NAMES if name not in TABLES]


@pytest.mark.parametrize("name", IMAGES)
def test_official_format(archives, name):
    data, labels = getattr(archives, name)()
    dataset = load(name.upper(), archives.folder)
    assert dataset.name == name
    assert dataset.source in (archive.file for archive in REGISTRY[name].archives)
    # Grey values and reduced images are rounded to bytes.
    np.testing.assert_allclose(dataset.data.astype(float), data, atol=0.501)
    np.testing.assert_array_equal(dataset.labels, labels)
    assert dataset.note.startswith(f"part: {len(data)} of {REGISTRY[name].count} ")


@pytest.mark.parametrize("name", IMAGES)
def test_compact_format(archives, name):
    shape = {"mnist": (28, 28), "covtype": (54,), "coil100": (32, 32, 3), "kylberg": (8, 8), "yaleb": (9, 7)}
    data, labels = archives.images(4, *shape.get(name, (32, 32))), np.arange(4)
    member = "features" if name == "covtype" else "images"
    archives.npz(name, **{member: data.astype(np.int16) if name == "covtype" else data}, labels=labels)
    dataset = load(name, archives.folder)
    np.testing.assert_array_equal(dataset.data, data)
    np.testing.assert_array_equal(dataset.labels, labels)
    assert dataset.source == f"{name}.npz"


def test_official_files_are_preferred(archives):
    images, _ = archives.mnist()
    archives.npz("mnist", images=archives.images(2, 28, 28), labels=np.arange(2))
    np.testing.assert_array_equal(load("mnist", archives.folder).data, images)


def test_official_kylberg_subset(archives):
    image = archives.images(16, 16)
    archives.zip(
        "subsetOfKylbergTextureDataset-6classes-40samples.zip", {"s/canvas1/canvas1-a-p001.png": archives.png(image)}
    )
    dataset = load("kylberg", archives.folder)
    np.testing.assert_array_equal(dataset.data, image[None])
    assert dataset.note.startswith("part: 1 of 4480 images, 1 of 28 classes")


def test_complete_data_set_has_no_note(archives, monkeypatch):
    from dataclasses import replace

    archives.yaleb()
    monkeypatch.setitem(REGISTRY, "yaleb", replace(REGISTRY["yaleb"], count=3))
    assert load("yaleb", archives.folder).note == ""


def test_progress_reaches_the_end(archives):
    archives.coil100()
    calls = []
    load("coil100", archives.folder, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 5) for k in range(1, 6)]


def test_data_folder_is_found(archives, monkeypatch, tmp_path):
    archives.mnist()
    monkeypatch.setenv("RETRAX_DATA", str(archives.folder))
    assert len(load("mnist").data) == 7
    assert available()["mnist"] == archives.folder / "train-images-idx3-ubyte.gz"
    assert available()["coil100"] is None
    assert available(tmp_path / "nowhere")["mnist"] is None
    monkeypatch.setenv("RETRAX_DATA", "")
    assert data_directory().name == "retrax"


def test_pca_matrices(archives):
    images, _ = archives.mnist()
    x, note = pca_matrix("mnist", archives.folder)
    flat = images.reshape(7, -1) / 255
    np.testing.assert_allclose(x, flat - flat.mean(axis=0), atol=1e-14)
    assert note.startswith("pixels divided by 255, then centred; part: 7 of")

    features = np.array([[0, 5, -10], [10, 5, 30], [5, 5, 10]], dtype=np.int16)
    features = np.pad(features, ((0, 0), (0, 51)))
    archives.npz("covtype", features=features, labels=np.arange(3))
    x, note = pca_matrix("COVTYPE", archives.folder)
    np.testing.assert_allclose(x[:, :3], [[-0.5, 0, -0.5], [0.5, 0, 0.5], [0, 0, 0]], atol=1e-15)
    assert "each column scaled to [0, 1], then centred" in note
    with pytest.raises(DataError, match="choose mnist or covtype"):
        pca_matrix("yaleb", archives.folder)


def fails(name: str, folder, *words: str) -> None:
    """Loading fails with one line that contains these words."""
    with pytest.raises(DataError) as caught:
        load(name, folder)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_unknown_name(archives):
    fails(
        "mnits",
        archives.folder,
        "unknown data set 'mnits'",
        "mnist, covtype, yaleb, cifar100, coil100, kylberg, wordnet",
    )


@pytest.mark.parametrize("name", NAMES)
def test_missing_file_says_what_whence_and_whither(archives, name):
    source = REGISTRY[name]
    fails(name, archives.folder, source.archives[0].file, source.origin, str(archives.folder), f"{name}.npz", "--data")


def test_incomplete_kylberg_says_what_is_missing(archives):
    archives.kylberg()
    (archives.folder / "canvas1-without-rotations.zip").unlink()
    fails("kylberg", archives.folder, "1 of 28 files are missing", "canvas1-without-rotations.zip")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["truncated", "overwritten", "empty"])
def test_damaged_official_file(archives, name, damage):
    getattr(archives, name)()
    path = archives.folder / REGISTRY[name].archives[0].file
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "truncated": content[:middle],
            "overwritten": content[: middle - 40] + bytes(80) + content[middle + 40 :],
            "empty": b"",
        }[damage]
    )
    fails(name, archives.folder, path.name)
    assert not [p for p in archives.folder.iterdir() if p.name.startswith(".")]


def test_truncated_npz(archives):
    path = archives.npz("yaleb", images=archives.images(3, 9, 7), labels=np.arange(3))
    path.write_bytes(path.read_bytes()[:-200])
    fails("yaleb", archives.folder, "yaleb.npz is damaged or incomplete")


def test_pickle_inside_npz_is_refused(archives):
    archives.npz("yaleb", images=np.array([{"a": 1}, [2]], dtype=object), labels=np.arange(2))
    fails("yaleb", archives.folder, "yaleb.npz", "pickle", "refused")


def test_pickle_instead_of_npz_is_refused(archives):
    import pickle

    (archives.folder / "yaleb.npz").write_bytes(pickle.dumps([1, 2]))
    fails("yaleb", archives.folder, "yaleb.npz is damaged")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"labels": np.arange(2)}, "has no array 'images'"),
        ({"images": np.zeros((2, 9, 7)), "labels": np.arange(2)}, "type float64"),
        ({"images": np.zeros((2, 9), np.uint8), "labels": np.arange(2)}, "shape (2, 9)"),
        ({"images": np.zeros((2, 9, 7), np.uint8), "labels": np.arange(3)}, "2 images and 3 labels"),
    ],
)
def test_wrong_npz(archives, arrays, words):
    archives.npz("yaleb", **arrays)
    fails("yaleb", archives.folder, words)


@pytest.mark.parametrize("evil", ["../evil.pgm", "/etc/evil.pgm", "a/../../evil.pgm", "..\\evil.pgm", "C:/evil.pgm"])
def test_path_traversal_in_zip_is_refused(archives, evil):
    archives.zip("CroppedYale.zip", {"yaleB01_P00A+000E+00.pgm": b"P5 1 1 255 x", evil: b""})
    fails("yaleb", archives.folder, "CroppedYale.zip is refused", "points outside")


@pytest.mark.parametrize("evil", ["../evil.bin", "/tmp/evil.bin"])
def test_path_traversal_in_tar_is_refused(archives, evil):
    archives.tar("cifar-100-binary.tar.gz", {"train.bin": bytes(3074), "test.bin": bytes(3074), evil: b"x"})
    fails("cifar100", archives.folder, "cifar-100-binary.tar.gz is refused", "points outside")


def test_link_in_tar_is_refused(archives):
    with tarfile.open(archives.folder / "cifar-100-binary.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("train.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    fails("cifar100", archives.folder, "is a link or a device")


def test_tar_without_the_files(archives):
    archives.tar("cifar-100-binary.tar.gz", {"cifar-100-python/train": b"a pickle, never opened"})
    fails("cifar100", archives.folder, "does not contain train.bin")


def test_wrong_record_length(archives):
    archives.tar("cifar-100-binary.tar.gz", {"train.bin": bytes(3075), "test.bin": bytes(3074)})
    fails("cifar100", archives.folder, "not a multiple of 3074")


def npy(header: bytes, content: bytes = b"") -> bytes:
    """A member of an npz with a header of our own."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (1125899906842624, 9, 7)}\n",  # a petabyte
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 9, 7)}\n",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 9, 7\n",  # NumPy gives a TokenError
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 9, 7)}\n",  # less than there is
    ],
    ids=["huge", "negative", "broken", "short"],
)
def test_npz_header_that_lies(archives, header):
    archives.zip("yaleb.npz", {"images.npy": npy(header, bytes(126)), "labels.npy": npy(header)})
    fails("yaleb", archives.folder, "yaleb.npz is damaged or incomplete")


def test_too_much_in_an_npz(archives, monkeypatch):
    archives.npz("yaleb", images=np.zeros((40, 90, 70), dtype=np.uint8), labels=np.arange(40))
    monkeypatch.setattr(formats, "LARGEST_TOTAL", 250_000)
    fails("yaleb", archives.folder, "yaleb.npz is refused", "bytes together")


def test_too_much_in_a_zip(archives, monkeypatch):
    archives.yaleb()
    monkeypatch.setattr(formats, "LARGEST_TOTAL", 2 * 192 * 168)  # each of the three images is smaller
    fails("yaleb", archives.folder, "CroppedYale.zip is refused", "bytes together")


def test_too_much_in_a_gzip(archives, monkeypatch):
    archives.covtype()
    monkeypatch.setattr(formats, "LARGEST_MEMBER", 500)
    fails("covtype", archives.folder, "covtype.data.gz is refused", "claims 501 bytes")


def test_too_many_pixels(archives, monkeypatch):
    archives.kylberg()
    with monkeypatch.context() as patched:
        patched.setattr(formats, "LARGEST_IMAGE", 10)
        fails("kylberg", archives.folder, "an image claims")
    monkeypatch.setattr(formats, "_check_total", lambda path, sizes: None)  # small files, large images
    monkeypatch.setattr(formats, "LARGEST_TOTAL", 10)
    fails("kylberg", archives.folder, "more than 10 bytes together")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_long_header_in_a_tar_is_refused(archives, kind):
    with tarfile.open(archives.folder / "cifar-100-binary.tar.gz", "w:gz") as archive:
        header = tarfile.TarInfo("header")
        header.type, header.size = kind, 1 << 20
        archive.addfile(header, io.BytesIO(b"1048576 comment=" + b"a" * (1 << 20)))
    fails("cifar100", archives.folder, "refused: one of its headers claims 1048576 bytes")


@pytest.mark.parametrize("label", [300, 0, -3])
def test_covtype_label_out_of_range(archives, label):
    row = ",".join(["1"] * 54 + [str(label)]) + "\n"
    (archives.folder / "covtype.data.gz").write_bytes(gzip.compress(row.encode()))
    fails("covtype", archives.folder, f"labels from {label} to {label}, not from 1 to 7")


def test_object_number_that_is_no_label(archives):
    archives.zip("coil-100.zip", {"obj300__0.png": archives.png(archives.images(32, 32, 3))})
    fails("coil100", archives.folder, "coil-100.zip")


def test_zip_without_images(archives):
    archives.zip("coil-100.zip", {"readme.txt": b"nothing"})
    fails("coil100", archives.folder, "contains none of the expected images")


def test_images_of_different_sizes(archives):
    names = ("yaleB01_P00A+000E+00.pgm", "yaleB01_P00A+005E+10.pgm")
    sizes = ((4, 5), (5, 4))
    archives.zip("CroppedYale.zip", {n: archives.pgm(archives.images(*s)) for n, s in zip(names, sizes, strict=True)})
    fails("yaleb", archives.folder, "different sizes: (4, 5), (5, 4)")


def test_png_that_is_not_one(archives):
    archives.zip("coil-100.zip", {"obj1__0.png": b"\x89PNG\r\n\x1a\nrubbish"})
    fails("coil100", archives.folder, "coil-100.zip is damaged")


def test_wrong_number_of_columns(archives):
    (archives.folder / "covtype.data.gz").write_bytes(gzip.compress(b"1,2,3\n"))
    fails("covtype", archives.folder, "3 columns")


def test_impossible_idx_header(archives):
    archives.mnist()
    header = bytes([0, 0, 8, 3]) + b"\xff" * 12
    (archives.folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header))
    fails("mnist", archives.folder, "impossible idx header")


@given(
    image=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)),
    comment=st.sampled_from(["", "\n# made by a test\n", "\n#1 2\n#3\n"]),
)
def test_pgm_round_trip(image, comment):
    height, width = image.shape
    header = f"P5\n{comment}{width} {comment} {height}\n255\n".encode()
    np.testing.assert_array_equal(read_pgm(header + image.tobytes()), image)


@pytest.mark.parametrize("content", [b"", b"P2 1 1 255 0", b"P5 2 2 255\nabc", b"P5 1 1 65535\nab", b"P5 0 3 255\n"])
def test_wrong_pgm(content):
    with pytest.raises(DataError, match="PGM"):
        read_pgm(content)


@given(source=st.integers(1, 200), share=st.floats(0.01, 1))
def test_area_matrix_keeps_constants_and_means(source, share):
    target = max(1, int(share * source))
    matrix = area_matrix(source, target)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), target / source, rtol=1e-12)


def test_area_resize_and_tiles():
    images = np.arange(2 * 6 * 9, dtype=np.float32).reshape(2, 6, 9)
    np.testing.assert_allclose(area_resize(images, 3), images.reshape(2, 3, 2, 3, 3).mean(axis=(2, 4)), rtol=1e-6)
    cut = tiles(images, 3)
    assert cut.shape == (18, 2, 3)
    np.testing.assert_array_equal(cut[5], images[0, 2:4, 6:9])
    with pytest.raises(DataError, match="too small"):
        area_resize(images, 7)
    with pytest.raises(DataError, match="do not divide"):
        tiles(images, 4)
    with pytest.raises(DataError, match="shape"):
        grey(np.zeros((2, 3)))


def test_import_is_light():
    heavy = "scipy pooch matplotlib PIL requests rich platformdirs"
    code = f"import sys, retrax.datasets; print([m for m in '{heavy}'.split() if m in sys.modules])"
    probe = code.replace("retrax.datasets", "retrax")
    run = [
        subprocess.run([sys.executable, "-c", c], capture_output=True, text=True, check=True, timeout=120).stdout
        for c in (code, probe)
    ]
    # What the package above imports is not this package's doing.
    assert run[0] == run[1]


def test_dataset_is_frozen(archives):
    archives.mnist()
    dataset = load("mnist", archives.folder)
    with pytest.raises(AttributeError):
        dataset.name = "other"
    assert isinstance(hash(dataset), int)
