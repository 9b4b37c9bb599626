"""The code of docs/tutorials/own-images.md, made by tools/examples.py."""

import subprocess

from pathlib import Path

import numpy as np
from PIL import Image

random = np.random.default_rng(0)
for kind in ("stripes", "rings"):
    Path("photos", kind).mkdir(parents=True, exist_ok=True)
across, down = np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32))
for number in range(200):
    kind = ("stripes", "rings")[number % 2]
    wave = np.sin(
        random.uniform(9, 12) * (across if kind == "stripes" else np.hypot(across, down)) + random.uniform(0, 6)
    )
    grey = 127 + 80 * wave + random.normal(0, 80, wave.shape)
    Image.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB").save(f"photos/{kind}/{number}.png")

import torch
from torch import nn
from volta import VoltaImageClassifier


class Grid(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Mean values in a grid of 16 × 16, from images (n, 3, height, width)."""
        return nn.functional.adaptive_avg_pool2d(images.mean(dim=1, keepdim=True), 16).flatten(1)


classifier = VoltaImageClassifier(Grid()).fit("photos")
print(classifier.classes_, classifier.predict(["photos/rings/1.png", "photos/stripes/2.png"]))

import matplotlib.pyplot as plt

files = ["photos/stripes/0.png", "photos/stripes/2.png", "photos/rings/1.png", "photos/rings/3.png"]
figure, axes = plt.subplots(1, 4, figsize=(6.4, 2))
for axis, file, decision in zip(axes, files, classifier.decide(files)):
    axis.imshow(Image.open(file))
    axis.set(title=f"{decision.label}, {decision.probability:.2f}", xticks=[], yticks=[])
plt.show()

blank = np.full((1, 32, 32, 3), 255, np.uint8)
decision = classifier.decide(blank, fpr=0.1)[0]
print(decision.action, "|", decision.reason)

subprocess.run('volta data import photos --name photos', shell=True, check=True)
