"""Every attacker against the same messages: pictures (P1 Table 3), places, the map of people, classes and number.

None of them is given anything of the sample's truth. The street map is the road in the mask that the ground decoder,
whose weights are public, makes of the features of the same frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.data.synthetic.traffic import VISDRONE_COUNTS
from uav_privacy_sc.evaluation.attack_tables import FALSE_ALARMS, MAPS, figures, tables
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.measurement import Measurement
from uav_privacy_sc.evaluation.messages import EPSILON_L, P_TX, About, protect
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.own_attackers import Carried, built, carried, load_modules, selected, takes
from uav_privacy_sc.evaluation.profiles import protection_config
from uav_privacy_sc.evaluation.protocols.attack_pictures import on_pictures, over_frames
from uav_privacy_sc.evaluation.protocols.location import NO_OBJECTS
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets

NAME = "attackers"
#: Objects of a sample that the location attackers are measured on.
MOST_OBJECTS = 12
#: What is public of how frequent a class is: instances in VisDrone-DET's validation split.
CLASS_COUNTS = VISDRONE_COUNTS
PRIVATE = (("in clear", None), ("ε 3", 3.0), ("ε 1", 1.0))


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample; the slow gradient attack is run on the first few that the preset allows."""
    own = carried(setting.attackers)
    following = chain(islice(store, 1, None), islice(store, 1))
    for number, (sample, other) in enumerate(zip(store, following, strict=True)):
        features = None if other.name == sample.name else other.features
        gradient = number < setting.preset.gradient_samples
        yield Unit(sample.name, partial(measure, sample, setting, gradient, features, own))


def measure(
    sample: Sample,
    setting: Setting,
    gradient: bool,
    other: np.ndarray | None = None,
    own: Carried | None = None,
) -> list[Measurement]:
    """Return what every attacker makes of one sample's messages.

    ``other`` are the features of another picture, ``own`` a user's attackers that no module registers.
    """
    if own is not None:
        own.arrive()
    load_modules(setting.attackers)
    found: list[Measurement] = []
    for seed in range(setting.seeds):
        about = About(NAME, setting, sample, seed)
        found += on_pictures(about, gradient, other)
        found += over_frames(about)
        found += _places(about)
        found += _maps(about)
        found += _descriptors(about)
    return found


# Places


def _places(about: About) -> Iterator[Measurement]:
    few, street = about.sample.boxes[:MOST_OBJECTS], _street_map(about)
    for branch in ("grid", "planar_laplace"):
        here = about.but(mechanism=branch, epsilon_l=EPSILON_L)
        for frames in about.setting.preset.track_frames:
            condition = f"{frames} frames"
            if not len(few):
                yield here.but(condition=condition).row("location_error", Missing(NO_OBJECTS))
                continue
            heard = _overheard(here, few, branch, frames)
            yield here.but(condition=condition, attacker="released").row(
                "location_error", _error(heard[-1].objects, few)
            )
            for entry in selected(about.setting.attackers, "location"):
                yield from _locate(here.but(condition=condition, attacker=entry.name), entry, heard, few, street)


def _overheard(about: About, objects: np.ndarray, branch: str, frames: int) -> list[Any]:
    """Return messages of objects that stand still, released anew in every frame in one order."""
    from uav_privacy_sc.attack.interface import Interception, PublicConfiguration
    from uav_privacy_sc.object_release import ObjectRelease
    from uav_privacy_sc.privacy.randomness import RandomStreams

    config = _in_order(protection_config(about.setting.profile))
    budgets = Budgets(1.0, EPSILON_L, P_TX, branch)
    release = ObjectRelease(config.objects, RandomStreams(about.setting.noise_seed(about.sample.name, about.seed)))
    known, tracks = PublicConfiguration(config, budgets, about.setting.profile), np.arange(len(objects))
    return [
        Interception(None, release(objects, budgets, EPSILON_L).objects, known, stamp_ns=number, tracks=tracks)
        for number in range(1, frames + 1)
    ]


def _in_order(config: ProtectionConfig, **descriptors: Any) -> ProtectionConfig:
    """Return the protection with objects in their order, so that guesses can be scored, and other options.

    Dummies are left out for the same reason, unless the number is what is attacked.
    """
    options = replace(config.objects.descriptors, **{"shuffle": False, "count_epsilon": None, **descriptors})
    return replace(config, objects=replace(config.objects, descriptors=options))


def _locate(about: About, entry: Any, heard: list[Any], truth: np.ndarray, street: Any) -> Iterator[Measurement]:
    """Score an attacker on the last frame; once more with the street map where it takes a prior."""
    frames = heard if entry.over_time else heard[-1:]
    if len(frames) == 1 < len(heard):
        return  # it looks at single frames: more of them change nothing
    rng = about.setting.rng(f"attacker {entry.name}", about.sample.name, about.seed)
    variants = {about.attacker: built(entry)}
    if takes(entry, "prior"):
        variants[f"{about.attacker}, street map"] = built(entry, prior=lambda: street)
    for name, attack in variants.items():
        if isinstance(attack, Missing):
            yield about.but(attacker=name).row("location_error", attack)
            continue
        guess = attack(frames, rng)[-1]
        error = float(np.linalg.norm(guess - scene.centers(truth), axis=1).mean())
        yield about.but(attacker=name).row("location_error", error)


def _street_map(about: About) -> Any:
    """Return the prior of an eavesdropper who decodes the frame's features, at ε_v 1, with the ground's decoder.

    Descriptors are no part of it: their places are what the prior is to be held against.
    """
    from uav_privacy_sc.attack.location import StreetPrior

    config = protection_config(about.setting.profile)
    noise_seed = about.setting.noise_seed(about.sample.name, about.seed)
    release = protect(about.sample, config, Budgets(1.0, EPSILON_L, P_TX), noise_seed)
    mask = networks_for(about.setting.networks).decoder(release.features, scene.no_objects())
    road = scene.MASK_CLASSES.index("road")
    return StreetPrior.from_mask((mask == road) | (mask < len(scene.OBJECT_CLASSES)))


def _error(released: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(scene.centers(released) - scene.centers(truth), axis=1).mean())


# The map of people, and descriptors


def _maps(about: About) -> Iterator[Measurement]:
    """Score the map attackers where the map follows detections, where it follows what is released, and without one."""
    from uav_privacy_sc.attack.sensitive_map import sensitive_cells

    assert about.sample.features is not None
    truth = sensitive_cells(about.sample.detected, about.sample.features.shape[1:])
    for condition, (mechanism, source) in MAPS.items():
        here = about.but(mechanism=mechanism, epsilon_v=1.0, epsilon_l=EPSILON_L, condition=condition)
        frame = Missing("no sensitive object was detected") if not truth.any() else _mapped(here, mechanism, source)
        if truth.all():
            frame = Missing("sensitive objects were detected in every cell")
        for entry in selected(about.setting.attackers, "sensitive_map"):
            yield from _roc(here.but(attacker=entry.name), entry, frame, truth)


def _roc(about: About, entry: Any, frame: Any, truth: np.ndarray) -> Iterator[Measurement]:
    """Yield the area below the ROC of an attacker, and its hits at :data:`FALSE_ALARMS`."""
    from uav_privacy_sc.attack.sensitive_map import roc

    attack = frame if isinstance(frame, Missing) else built(entry)
    if not isinstance(attack, Missing):
        rng = about.setting.rng(f"attacker {entry.name}", about.sample.name, about.seed)
        scores = attack([frame], rng)[0]
        attack = Missing("nothing was received") if scores is None else roc(scores, truth)
    if isinstance(attack, Missing):
        yield about.row("auc", attack)
        return
    yield about.row("auc", attack.auc)
    hits = np.interp(FALSE_ALARMS, attack.false_positive, attack.true_positive)
    for rate, hit in zip(FALSE_ALARMS, hits, strict=True):
        yield about.but(condition=f"{about.condition} at {rate:g}").row("hits_at", float(hit))


def _mapped(about: About, mechanism: str, source: str) -> Any:
    from uav_privacy_sc.attack.interface import Interception, PublicConfiguration

    config = protection_config(about.setting.profile)
    config = replace(config, visual=replace(config.visual, mechanism=mechanism, map_source=source))
    budgets = Budgets(1.0, EPSILON_L, P_TX)
    release = protect(about.sample, config, budgets, about.setting.noise_seed(about.sample.name, about.seed))
    return Interception(release.features, release.objects, PublicConfiguration(config, budgets, about.setting.profile))


def _descriptors(about: About) -> Iterator[Measurement]:
    """Score what is named right; labels once more with public class frequencies as prior, and by these alone."""
    truth, frequencies = about.sample.boxes, np.array(CLASS_COUNTS) / sum(CLASS_COUNTS)
    for target in ("label", "count"):
        for condition, epsilon in PRIVATE:
            here = about.but(mechanism=f"{target} descriptor", condition=condition)
            frame = _described(about, target, epsilon)
            if target == "label":
                yield here.but(attacker="blind").row("hit", _hit(target, np.tile(frequencies, (len(truth), 1)), truth))
            for entry in selected(about.setting.attackers, target):
                variants = {entry.name: built(entry)}
                if target == "label" and takes(entry, "prior"):
                    prior = tuple(frequencies.tolist())
                    variants[f"{entry.name}, class frequencies"] = built(entry, prior=partial(tuple, prior))
                for name, attack in variants.items():
                    wrong = next((item for item in (frame, attack) if isinstance(item, Missing)), None)
                    if wrong is not None:
                        yield here.but(attacker=name).row("hit", wrong)
                        continue
                    rng = about.setting.rng(f"attacker {entry.name}", about.sample.name, about.seed)
                    yield here.but(attacker=name).row("hit", _hit(target, attack([frame], rng)[0], truth))


def _described(about: About, target: str, epsilon: float | None) -> Any:
    from uav_privacy_sc.attack.interface import Interception, PublicConfiguration
    from uav_privacy_sc.object_release import ObjectRelease
    from uav_privacy_sc.privacy.randomness import RandomStreams

    config = protection_config(about.setting.profile)
    if target == "count" and epsilon is not None and config.objects.predictive:
        return Missing("places that follow tracks tell dummies from objects: a private number needs independent places")
    config = _in_order(config, **{f"{target}_epsilon": epsilon})
    budgets = Budgets(1.0, EPSILON_L, P_TX)
    streams = RandomStreams(about.setting.noise_seed(about.sample.name, about.seed))
    objects = ObjectRelease(config.objects, streams)(about.sample.boxes, budgets, EPSILON_L).objects
    return Interception(None, objects, PublicConfiguration(config, budgets, about.setting.profile))


def _hit(target: str, belief: np.ndarray | None, truth: np.ndarray) -> float | Missing:
    """Return the share of classes named, or whether the number is."""
    if belief is None:
        return Missing("nothing was received")
    if target == "count":
        return float(belief.argmax() == len(truth))
    return float((belief.argmax(axis=1) == truth["label"]).mean()) if len(truth) else Missing(NO_OBJECTS)


PROTOCOL = Protocol(NAME, "all attackers (P1 Table 3 and beyond)", "pictures", units, tables, figures)
