"""The server's rounds (P3 section II-B): ask clients, aggregate updates, learn from features, keep the better model.

Whatever is wrong with an answer leaves that answer out, is told in one line, and stays in the record. A round without
enough uploads is asked for again: who has answered is not asked twice, and who is sends what it had stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uav_privacy_sc.fleet.checkpoint import Checkpoint, State
from uav_privacy_sc.fleet.exchange import Exchange, FleetStalled
from uav_privacy_sc.fleet.faults import Expected, Fault, examine
from uav_privacy_sc.fleet.learning import (
    NotFiniteError,
    aggregate,
    reconstruct_features,
    select_model,
)
from uav_privacy_sc.fleet.link import feature_vectors, ideal_shares, sends_features, uplink_shares, upload_entries
from uav_privacy_sc.fleet.messages import FEATURES, GRADIENT, Order, Upload
from uav_privacy_sc.fleet.model import Images, Trainee
from uav_privacy_sc.fleet.setting import CLIENTS, FADES, FEDAVG, SELECTION, SERVER, TEST, FleetSetting, Method
from uav_privacy_sc.privacy.oneshot import SparseUpdate, paper_epsilon


@dataclass(frozen=True)
class Watch:
    """Who looks on: lines for the log, finished rounds with their record, and whether to stop between two answers."""

    tell: Callable[[str], None] = lambda line: None
    progress: Callable[[str, int, int, dict[str, Any]], None] = lambda title, done, total, record: None
    check: Callable[[], None] = lambda: None


@dataclass
class Round:
    """A round that is going on."""

    number: int
    expected: dict[int, Expected]
    entries: dict[int, int]
    taken: dict[int, Upload] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def missing(self) -> list[int]:
        """Return the clients without an upload that could be taken."""
        return sorted(self.expected.keys() - self.taken.keys())


class FleetServer:
    """Runs one method to its last round, from its checkpoint on.

    Args:
        public: pictures for model selection; ``test``: pictures on which the PSNR of every round is measured.
        trainee: a model of the right shape; its parameters are those of round 0.
    """

    def __init__(
        self,
        setting: FleetSetting,
        method: Method,
        trainee: Trainee,
        public: Images,
        test: Images,
        exchange: Exchange,
        checkpoint: Checkpoint,
        watch: Watch = Watch(),
    ) -> None:
        self.setting, self.method, self.trainee = setting, method, trainee
        self.public, self.test, self.exchange = public, test, exchange
        self.checkpoint, self.watch = checkpoint, watch
        least = upload_entries(method.uplink().least, trainee.size)
        if method.algorithm != FEDAVG and feature_vectors(least, trainee.feature_size) < 1:
            raise ValueError(
                f"a client with S_k = {least} entries cannot send a feature of {trainee.feature_size} numbers; "
                "take a larger model, or fewer numbers to a feature"
            )

    def finished(self) -> bool:
        """Return whether there is nothing left to do.

        Raises:
            CheckpointError: the checkpoint is of something else.
        """
        state = self.checkpoint.load()
        return state is not None and state.round >= self.setting.rounds

    def run(self) -> State:
        """Return the state after the last round; each round is on the disk before the next begins.

        Raises:
            FleetStalled: too few uploads, however often they were asked for; rounds before are kept.
            CheckpointError: the checkpoint is of something else.
            OSError: the checkpoint cannot be written.
        """
        state = self.checkpoint.load()
        if state is None:
            state = State(self.trainee.parameters())
            self.checkpoint.save(state)
        total = self.setting.rounds
        if 0 < state.round < total:
            self.watch.tell(f"{self.method.title}: goes on after round {state.round - 1} of {total}")
        while state.round < total:
            self.watch.progress(self.method.title, state.round, total, state.history[-1] if state.round else {})
            state = self._one(state)
            self.checkpoint.save(state)
        self.watch.progress(self.method.title, total, total, state.history[-1])
        return state

    def _one(self, state: State) -> State:
        self.exchange.refresh()
        current = self._begin(state.round)
        for attempt in range(self.setting.attempts):
            self._gather(current, attempt, state.weights)
            if len(current.taken) >= self.setting.enough:
                break
            self._tell(
                f"round {current.number}: {len(current.taken)} uploads, {self.setting.enough} are needed; "
                + ("asks again" if attempt + 1 < self.setting.attempts else "gives up")
            )
        else:
            raise FleetStalled(
                f"round {current.number} has {len(current.taken)} of at least {self.setting.enough} uploads after "
                f"{self.setting.attempts} attempts (last: {current.faults[-1]}); rounds before it are kept, run this "
                "again to go on, or lower the minimum"
            )
        weights, kept = self._learn(state.weights, current)
        record = self._record(current, weights, kept)
        return State(weights, [*state.history, record], [*state.faults, *map(str, current.faults)])

    def _begin(self, number: int) -> Round:
        """Draw who is asked, and what channels let each of them send."""
        setting, method = self.setting, self.method
        drawn = setting.rng(CLIENTS, number).choice(setting.clients, setting.per_round, replace=False)
        asked = np.sort(drawn)
        shares = uplink_shares(setting.clients, method.uplink(), setting.rng(FADES, number))[asked]
        low = sends_features(shares, method.uplink())
        if method.ideal:  # P3: half of them, 0.2 and 0.1
            low = np.argsort(np.argsort(shares, kind="stable")) < len(shares) // 2
            shares = ideal_shares(low)
        if method.algorithm == FEDAVG:
            low = np.zeros(len(asked), bool)
        entries = {int(k): upload_entries(float(s), self.trainee.size) for k, s in zip(asked, shares, strict=True)}
        expected = {
            int(k): self._expected(FEATURES if poor else GRADIENT, entries[int(k)])
            for k, poor in zip(asked, low, strict=True)
        }
        return Round(number, expected, entries)

    def _expected(self, strategy: str, entries: int) -> Expected:
        size, count = self.trainee.size, entries
        if strategy == FEATURES:
            size, count = self.trainee.encoder_size, max(1, entries // 2)
        dimension, norms = self.trainee.feature_size, self.trainee.feature_norms
        most = feature_vectors(entries, dimension)
        return Expected(strategy, count, size, self.method.mechanism(strategy), most, dimension, norms)

    def _gather(self, current: Round, attempt: int, weights: np.ndarray) -> None:
        number, name = current.number, self.method.name
        orders = {
            k: Order(name, number, attempt, k, current.expected[k].strategy, current.entries[k], weights).record()
            for k in current.missing()
        }
        for answer in self.exchange.ask(orders, number):
            try:
                upload = examine(answer, number, current.expected.get(answer.client), set(current.taken))
            except Fault as fault:
                current.faults.append(fault)
                self._tell(str(fault))
                continue
            current.taken[answer.client] = upload

    def _learn(self, start: np.ndarray, current: Round) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the next model and how it was chosen. Uploads are taken by client: when each came does not matter."""
        uploads = [current.taken[k] for k in sorted(current.taken)]
        updates = [
            (SparseUpdate(u.indices, u.values, u.size), float(u.samples)) for u in uploads if u.strategy == GRADIENT
        ]
        features = [u.features for u in uploads if u.strategy == FEATURES]
        half = aggregate(start, updates)
        if not features:
            return half, {"kept": "aggregated"}
        number, setting = current.number, self.setting
        try:
            whole, _ = reconstruct_features(
                self.trainee, half, np.concatenate(features), setting.server, number, setting.rng(SERVER, number)
            )
        except NotFiniteError as error:
            self._tell(f"round {number}: feature reconstruction is left out: {error}")
            return half, {"kept": "aggregated"}
        if not self.method.selection:
            return whole, {"kept": "reconstructed"}
        chosen = select_model(self.trainee, half, whole, self.public, setting.rng(SELECTION, number))
        both = {"psnr_aggregated": chosen.psnr_aggregated, "psnr_reconstructed": chosen.psnr_reconstructed}
        return chosen.parameters, {"kept": "reconstructed" if chosen.reconstructed else "aggregated", **both}

    def _record(self, current: Round, weights: np.ndarray, kept: dict[str, Any]) -> dict[str, Any]:
        self.trainee.load(weights)
        quality = self.trainee.psnr(self.test, self.setting.rng(TEST, current.number))
        if not math.isfinite(quality):
            raise NotFiniteError(f"the PSNR after round {current.number} is {quality}; use a smaller learning rate")
        kinds = [fault.kind for fault in current.faults]
        return {
            "round": current.number,
            "psnr": quality,
            **kept,
            "features": sum(e.strategy == FEATURES for e in current.expected.values()),
            "uploads": {str(k): self._spent(current, k) for k in sorted(current.taken)},
            "faults": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        }

    def _spent(self, current: Round, client: int) -> dict[str, Any]:
        """Return what an upload tells of its client, by Theorem 1 and in the worst case."""
        expected = current.expected[client]
        mechanism = self.method.mechanism(expected.strategy)
        paper = paper_epsilon(
            current.entries[client],
            self.method.bound,
            self.trainee.size,
            mechanism.sigma_1,
            mechanism.sigma_2,
            expected.strategy,
        )
        return {
            "strategy": expected.strategy,
            "entries": current.entries[client],
            "paper": paper,
            "worst": mechanism.worst_case_epsilon,
        }

    def _tell(self, line: str) -> None:
        self.watch.tell(f"{self.method.title}: {line}")
