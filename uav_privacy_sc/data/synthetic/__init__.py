"""Synthetic flights: street scenes seen from a drone, with boxes, masks and identities, from a seed."""

from uav_privacy_sc.data.synthetic.flight import VARIED, FlightStyle, SyntheticFlight, SyntheticFrame

__all__ = ["VARIED", "FlightStyle", "SyntheticFlight", "SyntheticFrame"]
