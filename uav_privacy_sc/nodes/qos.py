"""Quality of service in rclpy's terms: profiles of the graph's kinds of topic, and what is said when two do not fit."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.qos_overriding_options import QoSOverridingOptions

from uav_privacy_sc.graph import QOS

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # Humble has them under another name
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks

#: The policies of a topic that are parameters of the node: ``qos_overrides.<topic>.<publisher|subscription>.<policy>``.
POLICIES = (QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY, QoSPolicyKind.DEPTH)
QOS_PARAMETERS = QoSOverridingOptions(POLICIES)
_CHOICES: dict[str, Any] = {"reliability": ReliabilityPolicy, "durability": DurabilityPolicy}


def message_type(name: str) -> Any:
    """Return the class of a message type such as ``sensor_msgs/msg/Image``."""
    package, _, short = name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), short)


def qos_profile(kind: str) -> QoSProfile:
    """Return the rclpy profile of a kind of topic."""
    qos = QOS[kind]
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=qos.depth,
        reliability=ReliabilityPolicy[qos.reliability.upper()],
        durability=DurabilityPolicy[qos.durability.upper()],
    )


@contextmanager
def readable_overrides(topic: str) -> Iterator[None]:
    """Name the topic and what there is to choose where an override is none; rclpy raises RuntimeError for it.

    Raises:
        ValueError: a policy of the topic is overridden by what is none; one line.
    """
    try:
        yield
    except InvalidHandle:
        raise
    except RuntimeError as error:
        found = re.search(r"policy `(\w+)`: `(.*)`", str(error))
        if found is None:
            raise
        policy, value = found.groups()
        known = ", ".join(item.name.lower() for item in _CHOICES[policy] if item.name.lower() != "unknown")
        name = f"qos_overrides.{topic}.*.{policy}"
        raise ValueError(f"parameter {name} is {value!r}; choose one of {known}") from None


def publisher_events(topic: str, warn: Callable[[str, str], None] | None) -> PublisherEventCallbacks:
    """Return callbacks that warn, with the topic and one line, of a subscriber that will get nothing; or none."""
    if warn is None:
        return PublisherEventCallbacks(use_default_callbacks=False)
    return PublisherEventCallbacks(incompatible_qos=_telling(topic, "subscriber asks for more than is offered", warn))


def subscription_events(topic: str, warn: Callable[[str, str], None] | None) -> SubscriptionEventCallbacks:
    """Return callbacks that warn, with topic and one line, of a publisher of which nothing will be heard; or none."""
    if warn is None:
        return SubscriptionEventCallbacks(use_default_callbacks=False)
    return SubscriptionEventCallbacks(incompatible_qos=_telling(topic, "publisher offers less than is asked for", warn))


def _telling(topic: str, what: str, warn: Callable[[str, str], None]) -> Callable[[Any], None]:
    def tell(event: Any) -> None:
        if event.total_count:
            policy = qos_policy_name_from_kind(event.last_policy_kind)
            warn(topic, f"a {what} in {policy}; nothing passes between the two")

    return tell
