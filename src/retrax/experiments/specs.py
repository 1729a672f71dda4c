"""The experiments, one declarative spec each. To add an experiment, add a spec to `EXPERIMENTS`."""

import dataclasses
import difflib
from typing import NamedTuple

from retrax.experiments import series
from retrax.experiments.series import Series

GRID = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)


class UsageError(Exception):
    """A mistake in what was asked for; the message says what to do about it."""


@dataclasses.dataclass(frozen=True)
class ProblemSpec:
    """What is minimised: a family of problems and the data. Built by `workloads.build`."""

    family: str
    """"pca", "ica" (joint diagonalization) or "rc" (Riemannian centroid)."""
    data: str
    """A synthetic set of `workloads.SYNTHETIC`, or a real data set."""
    rank: int | None = None
    real: bool = False

    @property
    def needs(self) -> str:
        """The real data set it needs; empty for synthetic data."""
        return self.data if self.real else ""


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much to run."""

    epochs: float
    grid: tuple[float, ...]
    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    records: int
    tuning_records: int


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of Table 1, or a variation of one. `exponent` is the theory's p in SFO = O(ε^p).

    A restarting method has its batches as powers of σ/ε: `small` for b, `period` for m; the large batch is (σ/ε)².
    """

    key: str
    label: str
    recipe: str
    exponent: float
    batch_size: int = 1
    first_batch_size: int | None = None
    small: float = 0.0
    period: float = 0.0
    rate: float = 0.5
    """η₀ for all ε: about 1/L, as the theorems have it. Restarting methods choose theirs for each ε."""
    noise: int = 1
    """The variance of the gradients, as a multiple of the usual one; 0 for none."""
    share: float = 1.0
    """Of the budget."""

    @property
    def restarting(self) -> bool:
        """Whether its batches depend on ε."""
        return self.period > 0

    @property
    def varied(self) -> bool:
        """Whether it is a variation, not a row of the table."""
        return self.batch_size != 1 or self.noise != 1


def _variations() -> tuple[Entry, ...]:
    """RSRM and RSGD with larger batches, and with other noise."""
    rows = (("rsrm", "RSRM", -3, 100), ("rsgd", "RSGD", -4, None))
    batches = [
        Entry(f"{key}-b{size}", f"{label}, b = {size}", key, power, size, first)
        for key, label, power, first in rows
        for size in (10, 100)
    ]
    noises = [
        Entry(f"{key}-noise{noise}", f"{label}, {f'{noise}σ²' if noise else 'no noise'}", key, power, 1, first,
              noise=noise, share=0.5)
        for key, label, power, first in rows
        for noise in (0, 4, 16)
    ]  # fmt: skip
    return (*batches, *noises)


ENTRIES = (
    Entry("rsrm", "RSRM", "rsrm", -3, first_batch_size=100),
    Entry("rsgd", "RSGD", "rsgd", -4),
    Entry("rasa-lr", "RASA-LR", "rasa", -4, rate=0.1),
    Entry("rsvrg", "RSVRG", "rsvrg", -10 / 3, small=4 / 3, period=2 / 3, share=0.3),
    Entry("rsrg", "RSRG", "rsrg", -3, small=1, period=1, share=0.3),
    Entry("rspider", "RSPIDER", "rspider", -3, small=1, period=1, share=0.3),
    *_variations(),
)


@dataclasses.dataclass(frozen=True)
class Complexity:
    """SFO needed to reach ‖grad F‖ ≤ ε, for a falling sequence of ε (Table 1)."""

    problem: ProblemSpec
    tolerances: tuple[float, ...]
    budget: int
    """SFO of a run."""
    quick_budget: int


class PanelSpec(NamedTuple):
    """One panel of an experiment that has several."""

    key: str
    title: str
    problem: ProblemSpec
    home: str = ""
    """The experiment that compares methods on the same problem: its budget holds here, and what it ran is not run
    again."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure of the paper, or one comparison beyond it."""

    name: str
    title: str
    figure: str
    """The figures and tables of the paper it belongs to."""
    problem: ProblemSpec
    series: tuple[Series, ...]
    epochs: float
    """The budget: SFO divided by the number of samples."""
    quick_epochs: float
    claims: tuple[str, ...] = ()
    """Names of functions in `claims`."""
    grid: tuple[float, ...] = GRID
    tuning_seeds: int = 3
    records: int = 100
    tuning_records: int = 20
    panels: tuple[PanelSpec, ...] = ()
    complexity: Complexity | None = None
    timed: bool = True
    """Whether run times are measured."""
    notes: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """The real data set it needs; empty if none."""
        return self.problem.needs

    def problem_of(self, panel: str) -> ProblemSpec:
        """The problem of a panel."""
        return next((one.problem for one in self.panels if one.key == panel), self.problem)

    def home_of(self, panel: str) -> "Experiment":
        """The experiment whose budget a panel has: its home, or this one."""
        return next((EXPERIMENTS[one.home] for one in self.panels if one.key == panel and one.home), self)

    def at_home(self, one: Series) -> Series | None:
        """What a series of a panel is in the panel's home; None where it is not run there, or there is no home."""
        home = self.home_of(one.panel)
        theirs = {f"{one.panel}-{other.key}": other for other in home.series} if home is not self else {}
        return theirs.get(one.key)

    def panel_titles(self) -> dict[str, str]:
        """Panel keys and their titles; one untitled panel where there are no others."""
        return {one.key: one.title for one in self.panels} or {"": self.title}


_SYN1 = ProblemSpec("pca", "syn1", 10)
_MNIST = ProblemSpec("pca", "mnist", 10, real=True)
_COVTYPE = ProblemSpec("pca", "covtype", 10, real=True)
_ICA_YALEB = ProblemSpec("ica", "yaleb", real=True)
_ICA_CIFAR = ProblemSpec("ica", "cifar100", real=True)
_RC_SPD = ProblemSpec("rc", "spd")
_RC_YALEB = ProblemSpec("rc", "yaleb", real=True)
_SMALL_JD = ProblemSpec("ica", "small-jd")
_ONLINE = ProblemSpec("pca", "online-1", 2)
_SPECTRUM = "The paper gives only n, d and r; the spectrum (a drop by 2.5 at r) is this project's choice."
_CENTRED = "MATLAB's pca centres, the printed cost does not; the data are centred first."
_UNIT = "Features are scaled so that the average covariance has unit diagonal; raw ones lie outside the grid's reach."
_PCA = ("rsrm_best", "runtime_best", "rho_default", "cost_per_step", "untuned_best")
_ICA = ("rsrm_best", "slow_then_lower", "runtime_best", "rho_default", "untuned_best")
_RC = ("rsrm_best", "stable", "runtime_best", "rho_default", "untuned_best")

_UNTUNED = (
    PanelSpec("syn1", "PCA, SYN1", _SYN1, "pca-syn1"),
    PanelSpec("mnist", "PCA, MNIST", _MNIST, "pca-mnist"),
    PanelSpec("covtype", "PCA, COVTYPE", _COVTYPE, "pca-covtype"),
    PanelSpec("jd", "Joint diagonalization, 2000 matrices of 10×10", _SMALL_JD),
    PanelSpec("ica", "ICA, YALEB", _ICA_YALEB, "ica-yaleb"),
    PanelSpec("ica-cifar100", "ICA, CIFAR100", _ICA_CIFAR, "ica-cifar100"),
    PanelSpec("rc", "RC, 5000 matrices of 10×10", _RC_SPD, "rc-syn1"),
    PanelSpec("rc-yaleb", "RC, YALEB", _RC_YALEB, "rc-yaleb"),
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "pca-syn1", "PCA, SYN1: (n, d, r) = (10⁴, 100, 10)", "Fig. 1a, 1d", _SYN1, series.compared(100),
            epochs=20, quick_epochs=3, claims=("rsrm_best", "adaptive_like_sgd", *_PCA[1:]), notes=(_SPECTRUM,),
        ),
        Experiment(
            "pca-syn2", "PCA, SYN2: (10⁴, 500, 10)", "Fig. 1b, 4a", ProblemSpec("pca", "syn2", 10),
            series.compared(100), epochs=20, quick_epochs=0.5, claims=("rsrm_best", "adaptive_like_sgd", *_PCA[1:]),
            notes=(_SPECTRUM,),
        ),
        Experiment(
            "pca-syn3", "PCA, SYN3: (10⁴, 100, 20)", "Fig. 1c, 4b", ProblemSpec("pca", "syn3", 20),
            series.compared(100), epochs=20, quick_epochs=1, claims=_PCA, notes=(_SPECTRUM,),
        ),
        Experiment(
            "pca-mnist", "PCA, MNIST: (60000, 784, 10)", "Fig. 1e, 4c", _MNIST,
            series.compared(100), epochs=3, quick_epochs=0.05, claims=_PCA, tuning_seeds=2, notes=(_CENTRED,),
        ),
        Experiment(
            "pca-covtype", "PCA, COVTYPE: (581012, 54, 10)", "Fig. 1f, 4d",
            _COVTYPE, series.compared(100),
            epochs=3, quick_epochs=0.03, claims=_PCA, tuning_seeds=2, notes=(_CENTRED,),
        ),
        Experiment(
            "pca-syn1-eta", "PCA, SYN1: RSRM under different η₀", "Fig. 1g", _SYN1, series.fixed_rates(GRID, 100),
            epochs=20, quick_epochs=3, claims=("small_rates_beat_sgd",), notes=(_SPECTRUM,),
        ),
        Experiment(
            "pca-syn1-batch", "PCA, SYN1: RSRM under different first batches", "Fig. 1h", _SYN1,
            series.first_batches((10, 50, 100, 500, 1000, 5000)),
            epochs=20, quick_epochs=3, claims=("first_batch_insensitive",),
            notes=(_SPECTRUM, "The paper does not list the sizes it tried. η₀ is tuned for each."),
        ),
        Experiment(
            "ica-yaleb", "ICA, YALEB: joint diagonalization, n = 2414, St(43, 43)", "Fig. 2a, 4e",
            _ICA_YALEB, series.compared(200),
            epochs=60, quick_epochs=0.5, claims=_ICA, tuning_seeds=2, records=30, tuning_records=2, notes=(_UNIT,),
        ),
        Experiment(
            "ica-cifar100", "ICA, CIFAR100: joint diagonalization, n = 60000, St(43, 43)", "Fig. 2b, 4f",
            _ICA_CIFAR, series.compared(200),
            epochs=3, quick_epochs=0.02, claims=_ICA, tuning_seeds=2, records=15, tuning_records=2, notes=(_UNIT,),
        ),
        Experiment(
            "ica-coil100", "ICA, COIL100: joint diagonalization, n = 7200, St(43, 43)", "Fig. 2c, 4g",
            ProblemSpec("ica", "coil100", real=True), series.compared(200),
            epochs=20, quick_epochs=0.15, claims=_ICA, tuning_seeds=2, records=30, tuning_records=2, notes=(_UNIT,),
        ),
        Experiment(
            "rc-syn1", "RC, SYN1: n = 5000 matrices of 10×10, condition number 20", "Fig. 3a, 4h",
            _RC_SPD, series.compared(100),
            epochs=20, quick_epochs=0.3, claims=_RC, records=30, tuning_records=2,
        ),
        Experiment(
            "rc-yaleb", "RC, YALEB: n = 2414 matrices of 5×5", "Fig. 3b, 4i",
            _RC_YALEB, series.compared(100),
            epochs=20, quick_epochs=0.6, claims=(*_RC, "adaptive_fail"), records=30, tuning_records=2,
        ),
        Experiment(
            "rc-kylberg", "RC, KYLBERG: matrices of 5×5", "Fig. 3c, 4j",
            ProblemSpec("rc", "kylberg", real=True), series.compared(100),
            epochs=20, quick_epochs=0.4, claims=(*_RC, "adaptive_fail"), records=30, tuning_records=2,
        ),
        Experiment(
            "table1", "SFO to reach ‖grad F‖ ≤ ε, and variance reduction with full gradients", "Table 1", _SYN1,
            series.finite_sum(100), epochs=20, quick_epochs=6,
            claims=("exponents", "one_sample", "noise", "full_gradients"),
            panels=(PanelSpec("finite", "Finite sum: PCA, SYN1", _SYN1),),
            complexity=Complexity(_ONLINE, tuple(2 ** (-k / 2) for k in range(2, 17)), 10_000_000, 200_000),
            notes=(
                "Table 1 is measured where noise dominates: PCA of fresh samples in 8 dimensions, one η₀ for all ε, "
                "and E‖grad F‖ at an iterate drawn from the second half of the run. With 10⁷ SFO a run it takes about "
                "15 minutes on one core.",
            ),
        ),
        Experiment(
            "transports", "RSRM with projection and with isometric transports", "beyond the paper", _SYN1,
            series.transports(), epochs=20, quick_epochs=4, claims=("transports_alike",),
            panels=(
                PanelSpec("pca", "PCA, SYN1", _SYN1),
                PanelSpec("jd", "Joint diagonalization, 2000 matrices of 10×10", _SMALL_JD),
            ),
        ),
        Experiment(
            "untuned", "RSRM without a step size, and what else needs none", "beyond the paper", _SYN1,
            series.untuned({panel.key: 200 if panel.key.startswith("ica") else 100 for panel in _UNTUNED}),
            epochs=20, quick_epochs=1, claims=("untuned_ahead", "any_scale", "any_batch"), records=60,
            tuning_records=2, timed=False,
            panels=(
                *_UNTUNED,
                PanelSpec("scale", "PCA, SYN1 times 10⁻³ to 10³: gap, relative to the data's scale", _SYN1),
                PanelSpec("batch", "PCA, SYN1: batches of 1 to 100", _SYN1),
            ),
            notes=(_SPECTRUM, "Tuned methods stand beside those without a step size, at the same SFO."),
        ),
    )
}  # fmt: skip


def find(name: str) -> Experiment:
    """The experiment of that name; UsageError with the nearest names where there is none."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name.lower(), EXPERIMENTS, n=2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `retrax list`"
    raise UsageError(f"unknown experiment {name!r}: {hint}")
