#!/usr/bin/env python3
"""Writes tests/data/codec: blocks of random and extreme bytes for every dtype, and what the gguf
Python package decodes them to. The C++ reference codec must give the same bits.

  python tools/make_codec_golden.py tests/data/codec

Needs: gguf, numpy (the versions used are written to ORIGIN.txt beside the data).
SPDX-License-Identifier: Apache-2.0
"""
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

SEED = 20261130
RANDOM_BLOCKS = 5

# dtype: (elements in a block, bytes in a block, offsets of its f16 fields)
FORMATS = {
    T.Q4_0: (32, 18, [0]),
    T.Q4_1: (32, 20, [0, 2]),
    T.Q5_0: (32, 22, [0]),
    T.Q5_1: (32, 24, [0, 2]),
    T.Q8_0: (32, 34, [0]),
    T.Q2_K: (256, 84, [80, 82]),
    T.Q3_K: (256, 110, [108]),
    T.Q4_K: (256, 144, [0, 2]),
    T.Q5_K: (256, 176, [0, 2]),
    T.Q6_K: (256, 210, [208]),
}
# Largest, smallest normal, smallest subnormal, both signs: where a wrong f16 conversion shows.
EXTREME_SCALES = [0x7BFF, 0xFBFF, 0x0400, 0x0001, 0x8001, 0x0000]


def finite_f16(rng):
    """Bits of a random finite f16 of a usual magnitude."""
    return np.float16(rng.normal() * 0.05).view(np.uint16)


def blocks_of(rng, size, halves):
    """(blocks, size) bytes: random ones, then all-zero and all-one quants under extreme scales."""
    rows = [rng.integers(0, 256, size, dtype=np.uint8) for _ in range(RANDOM_BLOCKS)]
    scales = [[finite_f16(rng) for _ in halves] for _ in rows]
    for i, bits in enumerate(EXTREME_SCALES):
        fill = [0x00, 0xFF][i % 2]
        rows.append(np.full(size, fill, dtype=np.uint8))
        scales.append([EXTREME_SCALES[(i + k) % len(EXTREME_SCALES)] for k in range(len(halves))])
    for row, values in zip(rows, scales):
        for offset, value in zip(halves, values):
            row[offset:offset + 2] = np.array([value], dtype="<u2").view(np.uint8)
    return np.stack(rows)


def float_blocks(dtype, rng):
    """One row of floats: every exponent once, with a random fraction and sign."""
    if dtype == T.F32:
        exponents = np.arange(255, dtype=np.uint32)
        noise = rng.integers(0, 1 << 23, 255, dtype=np.uint32)
        signs = rng.integers(0, 2, 255, dtype=np.uint32)
        return (signs << 31 | exponents << 23 | noise).astype("<u4").view(np.uint8)
    bits, top = (10, 31) if dtype == T.F16 else (7, 255)
    exponents = np.arange(top, dtype=np.uint16)
    noise = rng.integers(0, 1 << bits, top, dtype=np.uint16)
    signs = rng.integers(0, 2, top, dtype=np.uint16)
    return (signs << 15 | exponents << bits | noise).astype("<u2").view(np.uint8)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    for dtype, (_, size, halves) in FORMATS.items():
        blocks = blocks_of(rng, size, halves)
        values = quants.dequantize(blocks, dtype).astype("<f4")
        blocks.tofile(out / f"{dtype.name}.blocks")
        values.tofile(out / f"{dtype.name}.f32")
    for dtype in (T.F32, T.F16, T.BF16):
        row = float_blocks(dtype, rng)
        view = {T.F32: "<f4", T.F16: "<f2"}.get(dtype)
        values = row.view(view).astype("<f4") if view else quants.dequantize(row, dtype)
        row.tofile(out / f"{dtype.name}.blocks")
        values.astype("<f4").tofile(out / f"{dtype.name}.f32")
    (out / "ORIGIN.txt").write_text(
        f"made by tools/make_codec_golden.py, seed {SEED}, gguf {version('gguf')}, "
        f"numpy {np.__version__}\n")


if __name__ == "__main__":
    main()
