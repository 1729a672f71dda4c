"""How much to measure: in full, in a quiet half hour, quickly, or just enough to show that everything runs."""

import dataclasses

_TO_TEN_MILLION = (10_000, 100_000, 1_000_000, 10_000_000)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of problems, steps in a repetition, and repetitions."""

    name: str = "full"
    repetitions: int = 15
    compiled_steps: int = 5_000
    eager_steps: int = 100
    slow_eager_steps: int = 10
    samples: int = 10_000
    rank: int = 10
    pca_dimensions: tuple[int, ...] = (100, 500, 784)
    joint: tuple[int, int] = (2414, 43)
    centroid_dimensions: tuple[int, ...] = (5, 10, 43)
    sweep: tuple[int, int] = (7, 5)
    growth_repetitions: int = 7
    growth_samples: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    growth_batches: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    growth_dimensions: tuple[int, ...] = (25, 50, 100, 200, 400, 800, 1600)
    growth_ranks: tuple[int, ...] = (1, 2, 5, 10, 20, 40, 80)
    memory_steps: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    accuracy_repetitions: int = 5
    accuracy_steps: int = 40_000
    eager_budget: float = 20.0
    """Seconds after which an eager contender's run to an accuracy is given up."""
    variant_dimensions: tuple[int, ...] = (100, 200, 784)
    variant_joint: tuple[int, int] = (2000, 43)
    variant_spd: tuple[int, ...] = (10, 43)
    first_calls: int = 4
    race_seconds: float = 20.0
    """Seconds after which a contender's race is given up."""
    race_mapped: int = 1_000_000
    """From so many samples on they are in a file."""
    race_pca: dict[int, tuple[int, ...]] = dataclasses.field(
        default_factory=lambda: dict.fromkeys((100, 784), _TO_TEN_MILLION)
    )
    """For each d the numbers of samples, each a multiple of the smallest; a file that does not fit is left out."""
    race_robust: tuple[int, tuple[int, ...]] = (100, _TO_TEN_MILLION)
    race_centroid: tuple[int, tuple[int, ...]] = (10, _TO_TEN_MILLION)
    race_joint: tuple[int, tuple[int, ...]] = (43, _TO_TEN_MILLION)
    scale_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)


FULL = Sizes()
BRIEF = Sizes(
    name="brief",
    repetitions=9,
    compiled_steps=2_000,
    eager_steps=50,
    slow_eager_steps=5,
    pca_dimensions=(100, 784),
    growth_repetitions=5,
    growth_samples=(10_000, 1_000_000),
    growth_batches=(1, 5, 20, 100, 500),
    growth_ranks=(1, 5, 10, 40, 80),
    memory_steps=(10_000, 100_000),
    accuracy_repetitions=3,
    accuracy_steps=20_000,
    eager_budget=5.0,
    race_seconds=5.0,
)
QUICK = Sizes(
    name="quick",
    repetitions=5,
    compiled_steps=2_000,
    eager_steps=30,
    slow_eager_steps=4,
    pca_dimensions=(100,),
    centroid_dimensions=(10,),
    growth_repetitions=3,
    growth_samples=(10_000, 100_000, 1_000_000),
    growth_batches=(1, 5, 20, 100),
    growth_dimensions=(50, 100, 200, 400),
    growth_ranks=(2, 5, 10, 20),
    memory_steps=(10_000, 30_000, 100_000),
    accuracy_repetitions=3,
    accuracy_steps=20_000,
    eager_budget=5.0,
)
# Most of its time is compiling, so the points of its curves are of few shapes, mostly those of the other suites.
TINY = Sizes(
    name="tiny",
    repetitions=2,
    compiled_steps=100,
    eager_steps=3,
    slow_eager_steps=3,
    samples=300,
    rank=3,
    pca_dimensions=(12,),
    joint=(60, 4),
    centroid_dimensions=(3,),
    sweep=(2, 2),
    growth_repetitions=1,
    growth_samples=(200,),
    growth_batches=(2, 5),
    growth_dimensions=(12,),
    growth_ranks=(3,),
    memory_steps=(100, 120),
    accuracy_repetitions=1,
    accuracy_steps=600,
    eager_budget=0.3,
    variant_dimensions=(12,),
    variant_joint=(60, 4),
    variant_spd=(3,),
    first_calls=1,
    race_seconds=0.5,
    race_mapped=2000,
    race_pca={12: (500, 2000)},
    race_robust=(12, (500,)),
    race_centroid=(3, (500,)),
    race_joint=(4, (500,)),
    scale_rows=(1000, 2000),
)
