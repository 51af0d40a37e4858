"""What makes a release private: calibration, mechanisms, accounting. Needs NumPy, SciPy and randomgen only."""
