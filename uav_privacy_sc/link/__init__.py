"""What the air does to a message: path loss, fading, noise and outage."""
