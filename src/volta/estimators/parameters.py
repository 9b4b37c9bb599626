"""The parameters of training, which classifiers of features and of images share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.core.scaling import ScaleName

if TYPE_CHECKING:
    from volta.methods.base import Method
    from volta.networks.protocols import ProtocolName


class TrainingParameters:
    """Keeps them as given, as scikit-learn asks; each classifier names them in a signature of its own."""

    def __init__(
        self,
        method: str | Method,
        protocol: ProtocolName,
        scale: ScaleName,
        random_state: int | np.random.RandomState | None,
        max_epochs: int | None,
        keep_rows: bool,
        verbose: bool,
        device: str,
    ) -> None:
        self.method = method
        self.protocol = protocol
        self.scale = scale
        self.random_state = random_state
        self.max_epochs = max_epochs
        self.keep_rows = keep_rows
        self.verbose = verbose
        self.device = device
