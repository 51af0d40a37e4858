"""Networks on the aircraft and at the ground."""

import os

# ultralytics reads these when it is imported: left alone it looks up hosts on the internet, and installs packages.
os.environ.setdefault("YOLO_OFFLINE", "true")
os.environ.setdefault("YOLO_AUTOINSTALL", "false")
