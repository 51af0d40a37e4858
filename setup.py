"""Package for both worlds: ``colcon build`` (ament_python) and ``pip install``.

What to install and in which version is said in requirements*.txt, constraints.txt and package.xml, not here: a version
check at start would refuse the NumPy, OpenCV and torch that a ROS distribution or a Jetson brings along.
"""

from glob import glob

from setuptools import find_packages, setup

NAME = "uav_privacy_sc"
NODES = ("camera", "perception", "protection", "link", "ground", "eavesdropper", "budget_server")

setup(
    name=NAME,
    version="0.1.0",
    description="Semantic communication from a drone with differential privacy, as a ROS 2 package",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={
        NAME: ["py.typed", "weights/*"],
        f"{NAME}.control": ["*.yaml"],
        f"{NAME}.evaluation": ["*.html", "*.j2", "*.css", "templates/*"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{NAME}/config", sorted(glob("config/*.yaml") + glob("config/*.rviz"))),
        (f"share/{NAME}/config/scenarios", sorted(glob("config/scenarios/*.yaml"))),
        (f"share/{NAME}/config/fleet", ["config/fleet/pyproject.toml"]),
        (f"share/{NAME}/config/fleet/fleet_app", ["config/fleet/fleet_app/__init__.py"]),
        *(
            (f"share/{NAME}/config/{folder}", sorted(glob(f"config/{folder}/*")))
            for folder in ("foxglove", "security", "systemd")
        ),
        (f"share/{NAME}/config/trajectories", sorted(glob("config/trajectories/*.csv"))),
    ],
    install_requires=["setuptools"],
    # Without "test", `colcon test` runs unittest, finds nothing and calls that a success.
    extras_require={
        "fleet": ['flwr[simulation]; python_version >= "3.11"', "scikit-learn", "threadpoolctl"],
        "test": ["pytest"],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "uav-privacy-sc = uav_privacy_sc.cli:main",
            *(f"{node} = uav_privacy_sc.nodes.{node}:main" for node in NODES),
        ],
    },
)
