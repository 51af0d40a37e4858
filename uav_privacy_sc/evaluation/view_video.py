"""What each party of a recorded flight saw, as a film: ground left, eavesdropper right, budgets and power below."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont

from uav_privacy_sc.data.flight_bag import Badge, SeenFrame
from uav_privacy_sc.evaluation import pictures
from uav_privacy_sc.evaluation.charts import AMBER, BLUE, GRID, INK, RED, Curve
from uav_privacy_sc.evaluation.view_page import FlightView, eve_note, facts, ground_note

_WIDTH, _GAP = 640, 16
_HEAD, _FOOT, _STRIP = 92, 34, 170
_DPI = 100
_BADGES = {"good": (21, 128, 61), "alert": (180, 83, 9), "bad": (185, 28, 28), "unknown": (100, 116, 139)}
_PAPER, _TEXT, _SOFT, _EMPTY = (248, 250, 252), (15, 23, 42), (71, 85, 105), (226, 232, 240)
#: A film outside of these rates is not watched.
_RATES = (1.0, 60.0)


def film_rate_hz(times_s: np.ndarray) -> float:
    """Return the rate of a flight by the median time between its frames, within what players play."""
    steps = np.diff(times_s)
    steps = steps[steps > 0]
    return float(np.clip(1.0 / np.median(steps), *_RATES)) if len(steps) else _RATES[0]


class FilmWriter:
    """Writes one picture a frame to an MP4 file (MPEG-4 part 2, which players know and browsers do not).

    Args:
        path: the file.
        view: the flight whose numbers are drawn below, all of them beforehand.
        badge: whether it was protected.

    Raises:
        OSError: the file cannot be written, or this OpenCV has no encoder for it.
    """

    def __init__(self, path: Path, view: FlightView, badge: Badge) -> None:
        self._badge = badge
        self._times_s = view.times_s()
        self._strip, self._cursor = _strip(view)
        self._fonts = {size: _font(size) for size in (15, 18, 20)}
        self._height = 0
        self._path, self._rate_hz = path, film_rate_hz(self._times_s)
        self._film: cv2.VideoWriter | None = None

    def write(self, number: int, frame: SeenFrame) -> None:
        """Append frame ``number`` of the flight."""
        picture = self.compose(number, frame)
        if self._film is None:
            size = (picture.shape[1], picture.shape[0])
            self._film = cv2.VideoWriter(str(self._path), cv2.VideoWriter.fourcc(*"mp4v"), self._rate_hz, size)
            if not self._film.isOpened():
                raise OSError(f"{self._path} cannot be written as MP4")
        self._film.write(cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))

    def compose(self, number: int, frame: SeenFrame) -> np.ndarray:
        """Return the film's picture ``(H, W, 3)`` uint8 RGB of a frame."""
        mask = None if frame.mask is None else pictures.class_picture(frame.mask, frame.objects, _WIDTH)
        eve = None if frame.picture is None else pictures.scaled(frame.picture, _WIDTH)
        self._height = self._height or _even(
            max((len(panel) for panel in (mask, eve) if panel is not None), default=360)
        )
        below = _HEAD + self._height + _FOOT
        canvas = Image.new("RGB", (2 * _WIDTH + 3 * _GAP, below + len(self._strip)), _PAPER)
        draw = ImageDraw.Draw(canvas)
        self._write_head(draw, number, frame)
        for place, (panel, note) in enumerate(((mask, ground_note(frame)), (eve, eve_note(frame)))):
            left = _GAP + place * (_WIDTH + _GAP)
            if panel is None:
                draw.rectangle((left, _HEAD, left + _WIDTH, _HEAD + self._height), fill=_EMPTY)
            else:
                canvas.paste(
                    Image.fromarray(panel).resize((_WIDTH, self._height), Image.Resampling.NEAREST), (left, _HEAD)
                )
            party = ("Ground", "Eavesdropper")[place]
            draw.text((left, _HEAD + self._height + 6), f"{party}: {note}", _SOFT, self._fonts[15])
        if len(self._strip):
            canvas.paste(Image.fromarray(self._strip), (0, below))
            x = self._cursor(self._times_s[min(number, len(self._times_s) - 1)])
            draw.line((x, below + 10, x, below + len(self._strip) - 34), fill=_TEXT, width=2)
        return np.asarray(canvas)

    def _write_head(self, draw: ImageDraw.ImageDraw, number: int, frame: SeenFrame) -> None:
        text, font = self._badge.text, self._fonts[18]
        draw.rounded_rectangle(
            (_GAP, 12, _GAP + draw.textlength(text, font) + 28, 46), 8, fill=_BADGES[self._badge.level]
        )
        draw.text((_GAP + 14, 18), text, "white", font)
        seconds = self._times_s[min(number, len(self._times_s) - 1)]
        said = " · ".join([f"frame {number + 1} of {len(self._times_s)}, {seconds:.1f} s", *facts(frame)])
        draw.text((_GAP, 58), said, _TEXT, self._fonts[20])

    def close(self) -> None:
        """Finish the file."""
        if self._film is not None:
            self._film.release()


def _even(value: int) -> int:
    return value + value % 2


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)


def _strip(view: FlightView) -> tuple[np.ndarray, Callable[[float], float]]:
    """Return the drawing of budgets and power over the flight, and where on it a time lies; no rows without records."""
    width = 2 * _WIDTH + 3 * _GAP
    curves = [view.curve("ε_v", "record.epsilon_v", BLUE), view.curve("ε_l", "record.epsilon_l", AMBER)]
    power = view.curve("power (W)", "record.p_tx", RED)
    if not any(np.isfinite(curve.values).any() for curve in curves):
        return np.zeros((0, width, 3), np.uint8), float
    figure = Figure(figsize=(width / _DPI, _STRIP / _DPI), dpi=_DPI, layout="constrained", facecolor="#f8fafc")
    axes = figure.add_subplot()
    other = axes.twinx()
    for target, drawn in ((axes, curves), (other, [power])):
        for curve in drawn:
            _plot(target, curve)
        target.tick_params(colors=INK, labelsize=8, length=0)
        target.set_ylim(bottom=0.0)
        for spine in target.spines.values():
            spine.set_visible(False)
    axes.grid(color=GRID)
    axes.margins(x=0.0)
    handles = [*axes.get_lines(), *other.get_lines()]
    axes.legend(handles=handles, loc="upper left", ncols=3, fontsize=8, frameon=False)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return pixels, lambda time_s: float(axes.transData.transform((time_s, 0.0))[0])


def _plot(axes: object, curve: Curve) -> None:
    axes.plot(curve.times, curve.values, color=curve.colour, label=curve.name, linewidth=1.5)  # type: ignore[attr-defined]
