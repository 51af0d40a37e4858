"""What Flower loads; everything is in the installed package, on every machine."""

from uav_privacy_sc.fleet.deployment import client, server

__all__ = ["client", "server"]
