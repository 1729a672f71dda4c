"""Archives with random damage: a data set is loaded or refused in our words, never with another exception.

RETRAX_MUTATIONS sets how many of each there are.
"""

from __future__ import annotations

import gzip
import os
import random
import zlib

import numpy as np
import pytest

from retrax.datasets import REGISTRY, DataError, Dataset, load

MUTATIONS = int(os.environ.get("RETRAX_MUTATIONS", "25"))


def damaged(content: bytes, choice: random.Random) -> bytes:
    """The same with some bytes changed, cut out, doubled or put in; of a gzip, also inside it."""
    if content[:2] == b"\x1f\x8b" and choice.random() < 0.6:
        try:
            return gzip.compress(damaged(gzip.decompress(content), choice), 1)
        except (OSError, EOFError, zlib.error):
            pass
    changed = bytearray(content)
    for _ in range(choice.choice([1, 1, 2, 8])):
        at = choice.randrange(len(changed) + 1)
        end = min(len(changed), at + choice.choice([1, 1, 4, 100]))
        kind = choice.randrange(5)
        if kind == 0:
            changed[at:end] = bytes(choice.randrange(256) for _ in range(end - at))
        elif kind == 1:
            del changed[at:end]
        elif kind == 2:
            changed[at:at] = changed[at:end]
        elif kind == 3:
            changed[at:end] = choice.choice([b"\xff\xff\xff\xff", b"\x00", b"99999999", b"-1", b"nan", b"\n"])
        else:
            del changed[at:]
    return bytes(changed)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", REGISTRY)
def test_damaged_archives_are_loaded_or_refused(archives, name, compact):
    made = getattr(archives, name)()
    official = sorted(path for path in archives.folder.iterdir() if path.is_file())
    if compact:
        if not isinstance(made, dict):
            dataset = load(name, archives.folder)
            made = {"features" if name == "covtype" else "images": dataset.data, "labels": dataset.labels}
        for path in official:
            path.unlink()
        official = [archives.npz(name, **made)]
    whole = {path: path.read_bytes() for path in official}
    choice = random.Random(f"{name} {compact}")
    for number in range(MUTATIONS):
        for path, content in whole.items():
            path.write_bytes(content)
        path = choice.choice(official)
        path.write_bytes(damaged(whole[path], choice))
        try:
            loaded = load(name, archives.folder)
        except DataError:
            continue
        except Exception as error:
            pytest.fail(f"mutation {number} of {path.name}: {type(error).__name__}: {error}")
        assert isinstance(loaded, Dataset)
        if loaded.labels is not None:
            assert np.ndim(loaded.labels) == 1


def test_a_table_without_rows_and_a_line_cut_short(archives):
    archives.folder.joinpath("emg.csv").write_text("time," + ",".join(f"c{i}" for i in range(8)) + ",label,exp\n")
    archives.tar("WNdb-3.0.tar.gz", {"dict/data.noun": b"00001740 03 n 01\n"})
    for name in ("emg", "wordnet"):
        with pytest.raises(DataError, match="damaged or incomplete"):
            load(name, archives.folder)
