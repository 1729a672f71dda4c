"""Few cases of the matrix of manifolds, methods, problems, dtypes, sizes and drivers, with each of them among these."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz import matrix
from tests.fuzz.calls import GOOD, OURS


@pytest.mark.parametrize("case", matrix.covering_cases(), ids=" ".join)
def test_the_smallest_sizes(case):
    end, words = matrix.tried(case)
    assert end in (GOOD, OURS), words
