"""What each real data set consists of: official files, where they come from, their checksums. Pure data and look-up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrax._extras import optional

from .errors import DataError

ENVIRONMENT = "RETRAX_DATA"


@dataclass(frozen=True)
class Archive:
    """One official file.

    `sha256` is of the file itself or, with `of_content`, of what its gzip layer holds (MNIST circulates
    recompressed). None means that no checksum is published: the first download records one beside the file.
    """

    file: str
    url: str
    sha256: str | None = None
    of_content: bool = False


@dataclass(frozen=True)
class RegistryEntry:
    """A data set: its official archives, its compact form, and how large it is when complete."""

    name: str
    what: str
    archives: tuple[Archive, ...]
    count: int
    classes: int = 0
    unit: str = "images"
    others: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[tuple[str, ...], ...]:
        """The sets of files that make the data set readable, in order of preference."""
        return (
            tuple(a.file for a in self.archives),
            (f"{self.name}.npz",),
            *((other,) for other in self.others),
        )

    @property
    def official(self) -> str:
        """The official files in words."""
        files = [archive.file for archive in self.archives]
        if len(files) <= 2:
            return " and ".join(files)
        return f"the {len(files)} files {files[0]} ... {files[-1]}"

    @property
    def origin(self) -> str:
        """Where the official files come from: one address, or the folder they share."""
        urls = [archive.url for archive in self.archives]
        return urls[0] if len(urls) == 1 else urls[0].rsplit("/", 1)[0] + "/"


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_KYLBERG = "https://filedn.com/lkCRue0RhPO7ercIrqFRl2Y/datasets/KylbergTextureDatasetV1/without-rotations-zip/"
_TEXTURES = [
    "blanket1",
    "blanket2",
    "canvas1",
    "ceiling1",
    "ceiling2",
    "cushion1",
    "floor1",
    "floor2",
    "grass1",
    "lentils1",
    "linseeds1",
    "oatmeal1",
    "pearlsugar1",
    "rice1",
    "rice2",
    "rug1",
    "sand1",
    "scarf1",
    "scarf2",
    "screen1",
    "seat1",
    "seat2",
    "sesameseeds1",
    "stone1",
    "stone2",
    "stone3",
    "stoneslab1",
    "wall1",
]


def _mnist(file: str, content: str) -> Archive:
    return Archive(file, _MNIST + file, content, of_content=True)


_SOURCES = (
    RegistryEntry(
        "mnist",
        "handwritten digits, the 60000 training images, 28×28",
        (
            _mnist(
                "train-images-idx3-ubyte.gz",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            _mnist(
                "train-labels-idx1-ubyte.gz",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
        ),
        count=60_000,
        classes=10,
    ),
    RegistryEntry(
        "covtype",
        "forest cover types, 54 cartographic features",
        (
            Archive(
                "covtype.data.gz",
                "https://ndownloader.figshare.com/files/5976039",
                "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
            ),
        ),
        count=581_012,
        classes=7,
        unit="samples",
    ),
    RegistryEntry(
        "yaleb",
        "Extended Yale B, cropped faces of 38 people, 192×168",
        (Archive("CroppedYale.zip", "http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/CroppedYale.zip"),),
        count=2414,
        classes=38,
    ),
    RegistryEntry(
        "cifar100",
        "CIFAR-100, training and test images made grey, 32×32",
        (
            Archive(
                "cifar-100-binary.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            ),
        ),
        count=60_000,
        classes=100,
    ),
    RegistryEntry(
        "coil100",
        "COIL-100, 100 objects from 72 sides, RGB reduced to 32×32",
        (
            Archive(
                "coil-100.zip",
                "https://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-100/coil-100.zip",
                "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7",
            ),
        ),
        count=7200,
        classes=100,
    ),
    RegistryEntry(
        "kylberg",
        "Kylberg textures without rotations, 576×576",
        tuple(
            Archive(f"{texture}-without-rotations.zip", f"{_KYLBERG}{texture}-without-rotations.zip")
            for texture in _TEXTURES
        ),
        count=4480,
        classes=28,
        # The author also offers a small official subset: 6 classes, 40 images each.
        others=("subsetOfKylbergTextureDataset-6classes-40samples.zip",),
    ),
    RegistryEntry(
        "wordnet",
        "WordNet 3.0, the nouns and their hypernyms",
        (Archive("WNdb-3.0.tar.gz", "https://wordnetcode.princeton.edu/3.0/WNdb-3.0.tar.gz"),),
        count=82_115,
        unit="nouns",
        others=("wordnet.zip",),  # as NLTK offers it
    ),
    RegistryEntry(
        "movielens",
        "MovieLens, GroupLens' latest small set of ratings (of 2016; the official file has newer ones)",
        (Archive("ml-latest-small.zip", "https://files.grouplens.org/datasets/movielens/ml-latest-small.zip"),),
        count=100_004,
        unit="ratings",
    ),
    RegistryEntry(
        "emg",
        "electromyograms of five hand gestures, eight channels, two people, two sessions each",
        (
            Archive(
                "emg.csv",
                "https://raw.githubusercontent.com/geomstats/geomstats/main/geomstats/datasets/data/emg/emg.csv",
                "7f80636be3dc37770da73ca8456ddaad9a0b752ec34b51903f33cf05bdc5ca9a",
            ),
        ),
        count=731_682,
        classes=5,
        unit="readings",
    ),
    RegistryEntry(
        "mfeat",
        "UCI multiple features: six views of 2000 handwritten digits",
        (Archive("multiple+features.zip", "https://archive.ics.uci.edu/static/public/72/multiple+features.zip"),),
        count=2000,
        classes=10,
        unit="digits",
    ),
)
REGISTRY: Mapping[str, RegistryEntry] = {source.name: source for source in _SOURCES}


def find_source(name: str, registry: Mapping[str, RegistryEntry] = REGISTRY) -> RegistryEntry:
    """The registry entry of a data set, by name in any case."""
    try:
        return registry[name.lower()]
    except (KeyError, AttributeError):
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(registry)}") from None


def data_directory(directory: str | os.PathLike[str] | None = None) -> Path:
    """The data folder: `directory`, else the environment variable RETRAX_DATA, else the user's cache folder."""
    if directory is not None and not isinstance(directory, str | os.PathLike):
        raise DataError(f"directory must be a path, not {directory!r}")
    if directory is not None:
        return Path(directory).expanduser()
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT]).expanduser()
    return cache_directory()


def cache_directory() -> Path:
    """The folder of Retrax in the user's cache."""
    return Path(optional("platformdirs").user_cache_dir("retrax", appauthor=False))


def is_there(path: Path) -> bool:
    """Whether there is a file; DataError where the disk does not let us look."""
    try:
        return path.is_file()
    except OSError as error:
        raise DataError(f"{path} cannot be looked at ({error.strerror}): name another folder") from error


def find_files(source: RegistryEntry, folder: Path) -> list[Path] | None:
    """The files of the first form of a data set that is completely there, or None."""
    for form in source.forms:
        paths = [folder / file for file in form]
        if all(map(is_there, paths)):
            return paths
    return None


def require_files(source: RegistryEntry, folder: Path) -> list[Path]:
    """`find_files`, with an error that says what to fetch from where and where to put it."""
    paths = find_files(source, folder)
    if paths is None:
        raise DataError(
            f"{source.name} is not in {folder}{_partly(source, folder)}: run `retrax data fetch {source.name}`, "
            f"or {advice(source, folder)}, or name another folder by --data DIR or {ENVIRONMENT}"
        )
    return paths


def available(directory: str | os.PathLike[str] | None = None) -> dict[str, Path | None]:
    """For each data set, the (first) file it would be read from, or None where it is missing."""
    folder = data_directory(directory)
    found = {name: find_files(source, folder) for name, source in REGISTRY.items()}
    return {name: paths[0] if paths else None for name, paths in found.items()}


def advice(source: RegistryEntry, folder: Path) -> str:
    """How to get a data set by hand."""
    other = " or ".join([f"{source.name}.npz", *source.others])
    return f"fetch {source.official} from {source.origin} and put it in {folder} (or put {other} there)"


def _partly(source: RegistryEntry, folder: Path) -> str:
    missing = [archive.file for archive in source.archives if not is_there(folder / archive.file)]
    if len(missing) == len(source.archives):
        return ""
    return f" completely ({len(missing)} of {len(source.archives)} files are missing, {missing[0]} first)"
