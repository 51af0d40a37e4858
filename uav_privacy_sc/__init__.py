"""Private semantic communication from drones: detect, protect, transmit, decode, attack."""

__version__ = "0.1.0"
