"""What P1 publishes, number by number, with the section that says it. The only place where these numbers stand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedValue:
    """One number of P1: where it stands, what it is about, and its printed 95 % half-width where one is given."""

    section: str
    about: str
    metric: str
    mechanism: str
    value: float
    half_width: float | None = None
    epsilon_v: float | None = None
    attacker: str = ""
    condition: str = ""


def _values(section: str, about: str, rows: tuple[tuple[str, str, float, float | None], ...]) -> list[PublishedValue]:
    return [
        PublishedValue(section, about, metric, mechanism, value, None, eps) for metric, mechanism, value, eps in rows
    ]


_TRADEOFF = _values(
    "5.6",
    "trade-off (Figure 3)",
    (
        ("category_accuracy", "region_aware", 0.802, 1.0),
        ("category_accuracy", "uniform", 0.748, 1.0),
        ("ssim_sensitive", "region_aware", 0.015, 1.0),
        ("ssim_sensitive", "uniform", 0.038, 1.0),
        ("category_accuracy", "region_aware", 0.819, 3.0),
        ("category_accuracy", "uniform", 0.764, 3.0),
        ("ssim_sensitive", "region_aware", 0.018, 3.0),
        ("ssim_sensitive", "uniform", 0.047, 3.0),
    ),
)
_ABLATION = _values(
    "5.8",
    "fixed budget (Figures 5 to 7)",
    (
        ("category_accuracy", "none", 0.843, 1.0),
        ("ssim_sensitive", "none", 0.201, 1.0),
        ("feature_cosine_sensitive", "none", 1.0, 1.0),
        ("category_accuracy", "uniform", 0.748, 1.0),
        ("ssim_sensitive", "uniform", 0.0383, 1.0),
        ("feature_cosine_sensitive", "uniform", 0.22, 1.0),
        ("ssim", "uniform", 0.01708, 1.0),
        ("category_accuracy", "region_aware", 0.802, 1.0),
        ("ssim_sensitive", "region_aware", 0.0152, 1.0),
        ("feature_cosine_sensitive", "region_aware", 0.18, 1.0),
        ("ssim", "region_aware", 0.01687, 1.0),
    ),
)


def _scenario(name: str, rows: tuple[tuple[str, float], ...]) -> list[PublishedValue]:
    about = "means of a scenario (Figure 4)"
    return [PublishedValue("5.7", about, metric, "bcd", value, condition=name) for metric, value in rows]


_SCENARIOS = [
    *_scenario("surveillance", (("utility", 0.6733), ("location_error", 0.0248))),
    *_scenario("precision", (("utility", 0.3418), ("p_tx", 0.2596), ("snr_db", 8.216), ("location_error", 0.0312))),
    *_scenario(
        "resource-limited", (("utility", 0.2365), ("p_tx", 0.0094), ("snr_db", -7.184), ("location_error", 0.0584))
    ),
]


def _attack(
    mechanism: str, epsilon: float | None, attacker: str, ssim: tuple[float, float], psnr: tuple[float, float]
) -> list[PublishedValue]:
    pairs = (("ssim", *ssim), ("psnr_sensitive", *psnr))
    return [
        PublishedValue("Table 3", "two attackers", metric, mechanism, value, half, epsilon, attacker)
        for metric, value, half in pairs
    ]


_TABLE3 = [
    *_attack("none", None, "inverter", (0.5483, 0.0071), (18.53, 0.21)),
    *_attack("none", None, "gradient", (0.0939, 0.0022), (12.20, 0.16)),
    *_attack("uniform", 20.0, "inverter", (0.1652, 0.0016), (13.15, 0.20)),
    *_attack("uniform", 20.0, "gradient", (0.0540, 0.0014), (11.23, 0.12)),
    *_attack("uniform", 10.0, "inverter", (0.1410, 0.0015), (12.73, 0.20)),
    *_attack("uniform", 10.0, "gradient", (0.0366, 0.0009), (10.66, 0.11)),
    *_attack("region_aware", 20.0, "inverter", (0.1835, 0.0028), (9.50, 0.18)),
    *_attack("region_aware", 20.0, "gradient", (0.0254, 0.0003), (10.04, 0.10)),
    *_attack("region_aware", 10.0, "inverter", (0.1571, 0.0027), (9.53, 0.14)),
    *_attack("region_aware", 10.0, "gradient", (0.0217, 0.0003), (9.83, 0.09)),
]


def _history(scenario: str, first: float, sixth: float) -> list[PublishedValue]:
    about = "convergence (Figure 8)"
    return [
        PublishedValue("5.9", about, "utility at iteration 1", "bcd", first, condition=scenario),
        PublishedValue("5.9", about, "utility at iteration 6", "bcd", sixth, condition=scenario),
    ]


_CONVERGENCE = [
    *_history("precision", 0.2649, 0.2817),
    *_history("resource-limited", 0.2839, 0.2986),
    *_history("surveillance", 0.6325, 0.6733),
    PublishedValue("5.9", "convergence (Figure 8)", "utility at iteration 8", "bcd", 0.6801, condition="surveillance"),
]
_RUNTIME = [
    PublishedValue("Table 4", "time (ms)", "time_ms", "region-aware DP, one frame", 1.41),
    PublishedValue("Table 4", "time (ms)", "time_ms", "coordinate DP, one frame", 0.10),
    PublishedValue("Table 4", "time (ms)", "time_ms", "BCD, one solve", 19.0),
    PublishedValue("Table 4", "time (ms)", "time_ms", "BCD, one iteration", 2.38),
    PublishedValue("Table 4", "peak memory (KB)", "memory_kb", "region-aware DP, one frame", 504.7),
    PublishedValue("Table 4", "peak memory (KB)", "memory_kb", "coordinate DP, one frame", 2.1),
    PublishedValue("Table 4", "peak memory (KB)", "memory_kb", "BCD, one solve", 2.3),
]

#: Everything, in the order of the paper.
PUBLISHED = (*_TRADEOFF, *_SCENARIOS, *_ABLATION, *_TABLE3, *_CONVERGENCE, *_RUNTIME)


def find(section: str, metric: str, mechanism: str, **where: object) -> PublishedValue | None:
    """Return the published value that fits, None where the paper has none."""
    for item in PUBLISHED:
        same = (item.section, item.metric, item.mechanism) == (section, metric, mechanism)
        if same and all(getattr(item, name) == value for name, value in where.items()):
            return item
    return None


def text(item: PublishedValue | None, digits: int = 3) -> str:
    """Return a published number as a table shows it."""
    if item is None:
        return "–"
    half = "" if item.half_width is None else f" ± {item.half_width:.{digits}f}"
    return f"{item.value:.{digits}f}{half}"
