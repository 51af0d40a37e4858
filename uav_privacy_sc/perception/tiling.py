"""Tiles for small objects: overlapping crops at full resolution, and their boxes in the frame of the whole picture.

Only boxes come from tiles. Features come from the pass over the whole picture: the codec was trained on that one scale,
one grid covers the picture without seams, and what the ledger charges an object for (``reach_cells``) holds there.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

#: Part of a tile that its neighbour shows, too.
OVERLAP = 0.2
#: A tile has at least so many pixels on a side; smaller pictures get fewer tiles.
LEAST_SIDE = 64
#: A box that ends so near an inner edge of its tile, in parts of the tile, has been cut by it.
_CUT = 0.005
MOST_TILES = 3

Window = tuple[int, int, int, int]


def windows(height: int, width: int, tiles: int) -> list[Window]:
    """Return ``(top, bottom, left, right)`` in pixels of up to ``tiles`` x ``tiles`` tiles that cover a picture.

    Raises:
        ValueError: ``tiles`` is not from 1 to 3.
    """
    if tiles not in range(1, MOST_TILES + 1):
        raise ValueError(f"tiles is {tiles!r}; give 1 (none), 2 or 3 a side")
    rows, columns = (_spans(side, min(tiles, max(1, side // LEAST_SIDE))) for side in (height, width))
    return [(*row, *column) for row, column in product(rows, columns)]


def _spans(side: int, count: int) -> list[tuple[int, int]]:
    length = int(np.ceil(side / (count - (count - 1) * OVERLAP)))
    starts = np.linspace(0, side - length, count).round().astype(int) if count > 1 else [0]
    return [(int(start), int(start) + length) for start in starts]


def to_frame(rows: torch.Tensor, window: Window, height: int, width: int) -> torch.Tensor:
    """Return a tile's rows in the frame of the picture, without those that an inner edge of the tile has cut.

    What is cut here is whole in the neighbour, or larger than the overlap and then seen in the whole picture.
    """
    top, bottom, left, right = window
    inner = rows.new_tensor([left > 0, top > 0, right < width, bottom < height]).bool()
    from_edge = torch.cat([rows[:, :2], 1 - rows[:, 2:4]], dim=1)
    rows = rows[~((from_edge < _CUT) & inner).any(dim=1)].clone()
    scale = rows.new_tensor([(right - left) / width, (bottom - top) / height]).repeat(2)
    rows[:, :4] = rows[:, :4] * scale + rows.new_tensor([left / width, top / height]).repeat(2)
    return rows
