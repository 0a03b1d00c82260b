"""Writes maps.json: localisation maps, and where their maximum lies once PyTorch has resized them to an image.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch numpy
    /tmp/golden/bin/python crates/leakage/tests/golden/maps.py

In double precision, by torch.nn.functional.interpolate(mode="bicubic", align_corners=False).
"""

import json
import pathlib

import numpy as np
import torch
from torch.nn.functional import interpolate

SHAPES = [((7, 7), (224, 224)), ((14, 14), (224, 224)), ((14, 14), (299, 299)), ((5, 9), (64, 48)), ((12, 10), (6, 5))]


def main():
    random = np.random.default_rng(20_250_104)
    cases = []
    for shape, image in SHAPES:
        for kind in ("noise", "hill", "corner", "negative", "plateau"):
            rows, columns = np.mgrid[: shape[0], : shape[1]]
            if kind == "noise":
                values = random.normal(size=shape)
            elif kind == "plateau":
                values = np.round(random.random(shape) * 3) + 0.01 * random.normal(size=shape)
            else:
                centre = np.zeros(2) if kind == "corner" else random.random(2) * shape
                values = np.exp(-((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2) / 6)
                values += 0.05 * random.normal(size=shape)
                if kind == "negative":
                    values -= 3
            values = np.round(values, 6)
            batch = torch.tensor(values)[None, None]
            resized = interpolate(batch, size=image, mode="bicubic", align_corners=False)[0, 0].numpy()
            peak = np.unravel_index(resized.argmax(), image)
            # Rounding must not decide: no other pixel comes as high.
            assert np.sum(resized > resized[peak] - 1e-10) == 1, (shape, kind)
            cases.append(
                {
                    "shape": shape,
                    "image": image,
                    "map": values.ravel().tolist(),
                    "peak": [int(at) for at in peak],
                    "value": float(resized[peak]),
                }
            )
    path = pathlib.Path(__file__).with_name("maps.json")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps({"torch": torch.__version__})},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
