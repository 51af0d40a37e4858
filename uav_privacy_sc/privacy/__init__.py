"""What makes a release private: calibration, mechanisms, accounting. Needs NumPy, SciPy and randomgen only."""

from . import matrix_visual  # noqa: F401  (makes the matrix mechanisms known by name)
