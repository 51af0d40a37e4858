"""Training of the detector, the codec and the eavesdropper's inverter."""
