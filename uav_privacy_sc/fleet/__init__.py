"""A fleet that learns: federated update of a semantic codec with feature reconstruction and private uploads (P3).

Flower and Ray would report that they are used; before any part of this package imports them, that is off.
"""

from __future__ import annotations

import os

#: What keeps Flower and Ray from talking to anyone outside; they read it when they are imported.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a warning about a change to come
    "RAY_worker_niceness": "0",  # else clients starve beside any other load
}

os.environ.update(QUIET)
