"""Picture attackers of the attackers' protocol: on P1's conditions, on controls, and on a hovering camera's frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.attack.interface import Interception, PublicConfiguration, Registered
from uav_privacy_sc.evaluation.measurement import Measurement
from uav_privacy_sc.evaluation.messages import EPSILON_L, P_TX, About, protect_again, score_mask, score_picture
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.own_attackers import built, is_own, selected, takes
from uav_privacy_sc.evaluation.profiles import protection_config, varied
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.release import Budgets

#: P1's conditions of Table 3, and the fixed budget of 5.8.
CASES: tuple[tuple[str, float | None], ...] = (
    ("none", None),
    ("uniform", 20.0),
    ("uniform", 10.0),
    ("uniform", 1.0),
    ("region_aware", 20.0),
    ("region_aware", 10.0),
    ("region_aware", 1.0),
)
#: Controls: all features zero; one colour, the mean of what is drawn from these; the noise of each uniform case, the
#: very same, on features that are zero; the features of another sample.
SILENCE, FLAT, NOISE, ANOTHER = "silence", "flat picture", "noise alone", "another picture"
GRADIENT = ("gradient", "gradient_adaptive")
INVERTERS = ("inverter", "inverter_adaptive")
#: What is heard again and again of a scene that stands still.
HOVERING = (("uniform", 1.0), ("region_aware", 1.0))
#: The ground's public decoder as an eavesdropper uses it, on the last frame alone and on the mean of all.
DECODER, MEAN_DECODER = "decoder", "decoder, mean"


def on_pictures(about: About, gradient: bool, other: np.ndarray | None) -> Iterator[Measurement]:
    """Score all picture attackers on every case, and on the controls, of which ``other`` is another picture's features.

    ``gradient``: whether the slow attackers are run. Those that use several frames are not: each case is one frame.
    """
    heard = _heard(about, other)
    for entry, attack in _attacks(about.setting, lambda entry: not entry.over_time and (gradient or not _slow(entry))):
        about = about.but(attacker=entry.name)
        if isinstance(attack, Missing):
            yield from (about.but(mechanism=m, epsilon_v=e).row("ssim", attack) for m, e in heard)
            continue
        rng = about.setting.rng(f"attacker {entry.name}", about.sample.name, about.seed)
        for (mechanism, epsilon), picture in zip(heard, _drawn(entry, attack, heard, rng), strict=True):
            here = about.but(mechanism=mechanism, epsilon_v=epsilon)
            yield from [here.row("ssim", picture)] if isinstance(picture, Missing) else score_picture(here, picture)
            if mechanism == SILENCE and not isinstance(picture, Missing):
                flat = np.full_like(picture, picture.mean(axis=(0, 1), keepdims=True).round())
                yield from score_picture(about.but(mechanism=FLAT), flat)


def _heard(about: About, other: np.ndarray | None) -> dict[tuple[str, float | None], Interception]:
    heard = {case: _intercepted(about, *case)[0] for case in CASES}
    clear = heard["none", None]
    assert clear.features is not None
    nothing = np.zeros_like(clear.features)
    heard[SILENCE, None] = replace(clear, features=nothing)
    of_nothing = about.but(sample=replace(about.sample, features=nothing))
    for epsilon in sorted({value for _, value in CASES if value is not None}, reverse=True):
        heard[NOISE, epsilon] = _intercepted(of_nothing, "uniform", epsilon)[0]
    if other is not None and other.shape == clear.features.shape:
        heard[ANOTHER, None] = replace(clear, features=other)
    return heard


def _drawn(entry: Registered, attack: Any, heard: dict[Any, Interception], rng: np.random.Generator) -> Iterator[Any]:
    """Yield a picture a case. The gradient attackers take them as a batch, others one by one: they are no sequence."""
    batches = [list(heard.values())] if _slow(entry) else [[frame] for frame in heard.values()]
    for batch in batches:
        for picture in attack(batch, rng):
            yield Missing("the attacker guessed nothing") if picture is None else picture


def _intercepted(about: About, mechanism: str, epsilon: float | None, frames: int = 1) -> list[Interception]:
    """Return frames of a still scene as P1's eavesdropper has them: the releases, without channel noise."""
    config = varied(protection_config(about.setting.profile), mechanism)
    budgets = Budgets(epsilon or 1.0, EPSILON_L, P_TX)
    known = PublicConfiguration(config, budgets, about.setting.profile)
    noise_seed = about.setting.noise_seed(about.sample.name, about.seed)
    releases = protect_again(about.sample, config, budgets, noise_seed, frames)
    return [Interception(each.features, each.objects, known) for each in releases]


def _slow(entry: Registered) -> bool:
    return entry.name in GRADIENT


def _attacks(setting: Setting, wanted: Callable[[Registered], bool]) -> Iterator[tuple[Registered, Any]]:
    """Yield the picture attackers that are to be run, built; :class:`Missing` says why one cannot be."""
    for entry in filter(wanted, selected(setting.attackers, "picture")):
        plain = is_own(entry) and not (takes(entry, "encoder") or takes(entry, "network"))
        yield entry, built(entry, **({} if plain else _offered(setting, entry.adaptive)))


def _offered(setting: Setting, adaptive: bool) -> dict[str, Any]:
    """Return what an attacker can be built from, each made when it is asked for."""
    from uav_privacy_sc.attack.gradient import preset

    scale = setting.preset
    finer = {} if adaptive else {"pixels": scale.gradient_pixels}
    name = "inverter_adaptive" if adaptive else "inverter"
    lacking = Missing("there are no weights of the adaptive inverter: uav-privacy-sc train attacker --noise adaptive")
    return {
        "encoder": lambda: networks_for(setting.networks).encoder,
        "network": lambda: networks_for(setting.networks).inverters.get(name, lacking),
        "config": lambda: preset("paper", adaptive, steps=scale.gradient_steps, **finer),
        "device": lambda: setting.networks.device,
    }


def over_frames(about: About) -> Iterator[Measurement]:
    """Score what several frames of one scene give, from a camera that hovers: the worst case, nothing moves at all.

    Attackers that use several frames hear all up to a number of the preset's; beside them the inverters and the
    ground's decoder, which is public, on the last of these frames alone, and the decoder on the mean.
    """
    numbers = about.setting.preset.track_frames
    attacks = list(_attacks(about.setting, lambda entry: entry.over_time or entry.name in INVERTERS))
    for mechanism, epsilon in HOVERING:
        here = about.but(mechanism=mechanism, epsilon_v=epsilon)
        heard = _intercepted(here, mechanism, epsilon, max(numbers))
        for entry, attack in attacks:
            yield from _listened(here.but(attacker=entry.name), entry, attack, heard)
        yield from _decoded(here, heard)


def _listened(about: About, entry: Registered, attack: Any, heard: list[Interception]) -> Iterator[Measurement]:
    for number in about.setting.preset.track_frames:
        here = about.but(condition=f"{number} frames")
        if isinstance(attack, Missing):
            yield here.row("ssim", attack)
            continue
        frames = heard[:number] if entry.over_time else heard[number - 1 : number]
        rng = about.setting.rng(f"attacker {entry.name}", about.sample.name, about.seed)
        picture = attack(frames, rng)[-1]
        nothing = Missing("the attacker guessed nothing")
        yield from [here.row("ssim", nothing)] if picture is None else score_picture(here, picture)


def _decoded(about: About, heard: list[Interception]) -> Iterator[Measurement]:
    from uav_privacy_sc.attack.averaging import running_mean

    decoder, means = networks_for(about.setting.networks).decoder, running_mean(heard, weighted=True)
    for number in about.setting.preset.track_frames:
        for name, features in ((DECODER, heard[number - 1].features), (MEAN_DECODER, means[number - 1])):
            here = about.but(condition=f"{number} frames", attacker=name)
            yield from score_mask(here, decoder(features, scene.no_objects()))
