"""PCA of MNIST with less memory than MNIST takes: the idx file is unpacked and read in pieces.

python examples/sklearn_mnist.py [--data DIR] [--limit 64] [--out digits.png]

After the imports the process may take only `limit` megabytes more. The images alone take 188 MB as single-precision
numbers; PCA needs what 784 × 784 covariances take.
"""

import argparse
import gzip
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import retrax as rx
from retrax.sklearn import PCA


def batches(path: Path, size: int = 500) -> Iterator[np.ndarray]:
    """The images of an idx file as rows of bytes, so many at a time."""
    with gzip.open(path, "rb") as file:
        magic, _count, height, width = struct.unpack(">IIII", file.read(16))
        if magic != 0x803:
            raise SystemExit(f"{path} is not an idx file of images")
        while content := file.read(size * height * width):
            yield np.frombuffer(content, dtype=np.uint8).reshape(-1, height * width)


def limit_memory(megabytes: int) -> None:
    """Allow so much private memory beyond what is in use."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    used = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, ((used + 1024 * megabytes) * 1024,) * 2)


def main() -> None:
    """Learn from the training images, show what the test images look like in 20 numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data; default: RETRAX_DATA, or the user's cache")
    parser.add_argument("--limit", type=int, default=64, help="megabytes (default: %(default)s)")
    parser.add_argument("--out", default="digits.png")
    options = parser.parse_args()
    folder = rx.datasets.data_directory(options.data)
    figure, axes = plt.subplots(3, 10, figsize=(10, 3.2))
    figure.canvas.draw()  # what drawing loads is loaded

    limit_memory(options.limit)
    try:
        np.zeros((60_000, 784), dtype=np.float32)
        print("the images would fit")
    except MemoryError:
        print(f"60000 images do not fit into {options.limit} MB")
    pca = PCA(20).fit(batches(folder / "train-images-idx3-ubyte.gz"))
    print(f"{pca.n_samples_seen_} images read once, solver {pca.solver_}")
    print(f"20 components have {pca.explained_variance_ratio_.sum():.4f} of the variance")

    images = next(batches(folder / "t10k-images-idx3-ubyte.gz", 10))
    shown = pca.inverse_transform(pca.transform(images))
    for column in range(10):
        for row, picture in enumerate((pca.components_[column], images[column], shown[column])):
            axes[row, column].imshow(picture.reshape(28, 28), cmap="RdBu" if row == 0 else "gray_r")
            axes[row, column].axis("off")
    figure.suptitle("Components; test images; the same from 20 numbers")
    figure.savefig(options.out, dpi=90)


if __name__ == "__main__":
    main()
