"""A series: one curve of a figure, that is, a method with its settings. Data only; nothing here runs."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrax.methods import Method

Options = tuple[tuple[str, float | str], ...]
"""Keyword arguments as pairs, so that a spec can be frozen and written to a file."""


@dataclasses.dataclass(frozen=True)
class Series:
    """A method, and how it is run.

    `variants` are alternative keyword arguments of the recipe that are tuned together with η₀. `rates` replaces
    the experiment's grid; a single rate with a single variant is not tuned at all, and without any rate (an empty
    tuple) the recipe is called without one: the method finds its own step size.
    """

    key: str
    """A name for files: letters, digits and hyphens."""
    label: str
    recipe: str
    """The name of the method in `retrax`."""
    options: Options = ()
    variants: tuple[Options, ...] = ((),)
    batch_size: int = 10
    first_batch_size: int | None = None
    rates: tuple[float, ...] | None = None
    in_paper: bool = True
    """Whether the paper's figure shows it; the others stand beside."""
    average: bool = False
    """Whether it is the average of the iterates that is judged, not the last one."""
    panel: str = ""
    problem_options: Options = ()
    """Further keyword arguments of the problem, such as its transport."""
    note: str = ""

    @property
    def tuning_free(self) -> bool:
        """Whether the method finds its own step size."""
        return self.rates == ()

    def method(self, learning_rate: float | None, variant: Options = ()) -> "Method":
        """The method with this step size; None for one that finds its own."""
        import retrax

        recipe: Callable[..., Method] = getattr(retrax, self.recipe)
        given = () if learning_rate is None else (learning_rate,)
        return recipe(*given, **dict(self.options), **dict(variant))


BESIDE = ("rsrm-untuned", "rsgd-average")
"""Keys of the series that stand in every figure though the paper has none like them."""
RHO_GRID = (0.05, 0.1, 0.3, 0.5, 0.9)


def rsrm(first_batch_size: int, **changes: Any) -> Series:
    """RSRM as in the paper: batches of 5, ρ₀ = 0.1."""
    return dataclasses.replace(
        Series("rsrm", "RSRM", "rsrm", batch_size=5, first_batch_size=first_batch_size), **changes
    )


RSGD = Series("rsgd", "RSGD", "rsgd")
AVERAGED = Series(
    "rsgd-average",
    "RSGD, averaged",
    "rsgd",
    in_paper=False,
    average=True,
    note="the Riemannian average of the iterates, weighted towards the end (Tripuraneni et al. 2018), with its own η₀",
)


def beside(first_batch_size: int, panel: str = "") -> tuple[Series, ...]:
    """What stands beside the paper's methods in every comparison, in its own line style."""
    untuned = rsrm(
        first_batch_size,
        key="rsrm-untuned",
        label="RSRM (untuned)",
        rates=(),
        in_paper=False,
        panel=panel,
        note="rx.rsrm() without a number: it finds η and ρ by itself",
    )
    return untuned, dataclasses.replace(AVERAGED, panel=panel)


RIVALS = (
    Series("rdog", "RDoG", "rdog", rates=(), in_paper=False, note="Dodd, Sharrock & Nemeth (2024)"),
    Series("rdowg", "RDoWG", "rdowg", rates=(), in_paper=False, note="Dodd, Sharrock & Nemeth (2024)"),
    Series("nrdog", "NRDoG", "nrdog", rates=(), in_paper=False, note="Dodd, Sharrock & Nemeth (2024)"),
    Series(
        "storm-plus",
        "STORM+",
        "storm_plus",
        batch_size=5,
        rates=(),
        in_paper=False,
        note="Levy, Kavis & Cevher (2021), with transports",
    ),
)
"""What else needs no step size."""
BEST_TUNED = ("rsrm", "rsrm-rho", "crmsprop", "rasa-lr")
BATCHES = (1, 2, 5, 10, 20, 50, 100)


def untuned(first_batch_sizes: dict[str, int]) -> tuple[Series, ...]:
    """RSRM without a number beside its rivals and tuned methods, in panels; with data of any scale, any batch size."""
    compare = []
    for panel, first in first_batch_sizes.items():
        tuned = [one for one in compared(first) if one.key in BEST_TUNED]
        compare += [
            dataclasses.replace(one, key=f"{panel}-{one.key}", panel=panel) for one in (*beside(first), *RIVALS, *tuned)
        ]
    rsrm_untuned, _ = beside(100)
    scales = [
        dataclasses.replace(
            rsrm_untuned,
            key=f"scale-1e{power}",
            label=f"data times 1e{power}",
            panel="scale",
            problem_options=(("scale", 10.0**power),),
        )
        for power in range(-3, 4)
    ]
    batches = [
        dataclasses.replace(rsrm_untuned, key=f"batch-{size}", label=f"b = {size}", panel="batch", batch_size=size)
        for size in BATCHES
    ]
    return (*compare, *scales, *batches)


_USUAL = "β as usual since Adam: 0.9 for the momentum, 0.999 for the adaptation; the paper prints the reverse"


def compared(first_batch_size: int) -> tuple[Series, ...]:
    """The paper's eight methods, and beside them RSRM with ρ₀ tuned and the momentum methods with the usual β."""
    return (
        rsrm(first_batch_size),
        RSGD,
        Series("csgd-m", "cSGD-M", "csgd_m", (("momentum", 0.999),)),
        Series("crmsprop", "cRMSProp", "crmsprop", (("beta", 0.9),)),
        Series("ramsgrad", "RAMSGRAD", "ramsgrad", (("momentum", 0.999), ("beta", 0.9))),
        Series("rasa-l", "RASA-L", "rasa", (("sides", "L"), ("beta", 0.9))),
        Series("rasa-r", "RASA-R", "rasa", (("sides", "R"), ("beta", 0.9))),
        Series("rasa-lr", "RASA-LR", "rasa", (("sides", "LR"), ("beta", 0.9))),
        rsrm(
            first_batch_size,
            key="rsrm-rho",
            label="RSRM (ρ₀ tuned)",
            # The paper's value comes first: the others are tried around its best step size.
            variants=tuple((("rho", rho),) for rho in sorted(RHO_GRID, key=lambda rho: rho != 0.1)),
            in_paper=False,
            note=f"ρ₀ chosen from {', '.join(f'{rho:g}' for rho in RHO_GRID)}",
        ),
        Series("csgd-m-usual", "cSGD-M (β=0.9)", "csgd_m", (("momentum", 0.9),), in_paper=False, note=_USUAL),
        Series(
            "ramsgrad-usual",
            "RAMSGRAD (β=0.9, 0.999)",
            "ramsgrad",
            (("momentum", 0.9), ("beta", 0.999)),
            in_paper=False,
            note=_USUAL,
        ),
        *beside(first_batch_size),
    )


def fixed_rates(rates: tuple[float, ...], first_batch_size: int) -> tuple[Series, ...]:
    """RSRM at each step size, and the best-tuned RSGD (Fig. 1g)."""
    curves = tuple(
        rsrm(first_batch_size, key=f"rsrm-eta-{rate:g}".replace(".", "p"), label=f"RSRM η₀={rate:g}", rates=(rate,))
        for rate in rates
    )
    return (*curves, dataclasses.replace(RSGD, label="RSGD (best η₀)"), *beside(first_batch_size))


def first_batches(sizes: tuple[int, ...]) -> tuple[Series, ...]:
    """RSRM with each first batch, η₀ tuned for each (Fig. 1h)."""
    return (*(rsrm(size, key=f"rsrm-first-{size}", label=f"RSRM |S₀|={size}") for size in sizes), *beside(100))


def transports() -> tuple[Series, ...]:
    """RSRM with projection and with isometric transports, on both problems."""
    choices = (
        ("pca", "projection", (("retraction", "polar"), ("transport", "projection"))),
        ("pca", "parallel", (("retraction", "polar"), ("transport", "parallel"))),
        ("pca", "exp + parallel", (("retraction", "exp"), ("transport", "parallel"))),
        ("jd", "projection", (("retraction", "qr"), ("transport", "projection"))),
        ("jd", "rotation", (("retraction", "qr"), ("transport", "rotation"))),
        ("jd", "polar + rotation", (("retraction", "polar"), ("transport", "rotation"))),
    )
    return tuple(
        rsrm(
            100,
            key=f"{panel}-{name.replace(' + ', '-')}",
            label=f"{name[0].upper()}{name[1:]}",
            panel=panel,
            problem_options=options,
            in_paper=name == "projection",
        )
        for panel, name, options in choices
    )


def finite_sum(first_batch_size: int) -> tuple[Series, ...]:
    """One-sample methods beside RSVRG and RSRG with full gradients."""
    note = "restarts with the full gradient after each pass; constant step size"
    return (
        rsrm(first_batch_size, panel="finite"),
        dataclasses.replace(RSGD, panel="finite"),
        Series("rasa-lr", "RASA-LR", "rasa", (("sides", "LR"), ("beta", 0.9)), panel="finite"),
        Series("rsvrg", "RSVRG", "rsvrg", in_paper=False, panel="finite", note=note),
        Series("rsrg", "RSRG", "rsrg", in_paper=False, panel="finite", note=note),
        *beside(first_batch_size, "finite"),
    )
