"""Images directly: a frozen backbone and a calibrated classifier of its features."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from volta.core.checks import refuse_mask
from volta.core.errors import InputError, MissingDataError, StoreError
from volta.core.scaling import ScaleName
from volta.core.types import Array
from volta.data.images import list_images, place_images
from volta.decisions import Policy
from volta.estimators.classifier import VoltaClassifier
from volta.estimators.deciding import DecidingMixin, Scored
from volta.estimators.explain import Explanation
from volta.estimators.inputs import CalibrationName

if TYPE_CHECKING:
    from torch import nn

    from volta.features.backbones.backbone import Backbone
    from volta.features.engines import Engine
    from volta.features.extract import ExtractionProgress, Images
    from volta.methods.base import Method
    from volta.networks.recipe import ProtocolName


ImageInput: TypeAlias = "str | Path | Sequence[str | Path] | NDArray[np.uint8] | Images"


def as_images(given: Any) -> Images:
    """Return a folder (all images in it, sorted by path), a list of files or an array of pixels as images."""
    from volta.features.extract import ImagePaths, PixelArray

    if isinstance(given, str | Path):
        folder = _folder(Path(given))
        return ImagePaths(tuple(folder / name for name in sorted(list_images(folder).names)))
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        return ImagePaths(tuple(Path(item) for item in given))
    if isinstance(given, np.ndarray) and given.dtype.kind in "US":
        return ImagePaths(tuple(Path(str(item)) for item in given.ravel()))
    if hasattr(given, "content_hash"):
        images: Images = given
        return images
    refuse_mask(given, "X")
    return PixelArray(_channels_first(np.asarray(given)))


def labelled_folder(source: Path) -> tuple[list[Path], NDArray[np.str_]]:
    """Return the images of a folder with one folder a class, and each one's class; of splits, those of ``train``."""
    folder = _folder(source)
    placed = place_images(list_images(folder))
    splits = {item.split for item in placed}
    if "all" not in splits and "train" not in splits:
        raise InputError(f"{source} has the splits {', '.join(sorted(splits))} and no train; name a folder of classes")
    chosen = [item for item in placed if item.split in ("all", "train")]
    return [folder / item.path for item in chosen], np.array([item.label for item in chosen])


def _folder(source: Path) -> Path:
    if not source.is_dir():
        raise MissingDataError(f"{source} is not a folder; pass a folder of images, a list of files, or pixels")
    return source


def _channels_first(pixels: Array) -> Array:
    """Return (n, 3, h, w) uint8, or say why the array is none that can be told to be images."""
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or 3 not in (pixels.shape[1], pixels.shape[3]):
        raise InputError(
            f"X is {pixels.dtype} of shape {pixels.shape}; pass uint8 pixels of shape (n, height, width, 3) or "
            "(n, 3, height, width), a list of files, or a folder; pixels in [0, 1] times 255, rounded, are uint8"
        )
    if pixels.shape[1] == 3 and pixels.shape[3] == 3:
        raise InputError(
            f"X has shape {pixels.shape}, which may be (n, height, width, 3) or (n, 3, height, width); "
            "pass images that are not 3 pixels high and wide"
        )
    return pixels if pixels.shape[1] == 3 else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


BATCH_ROWS = 16


class VoltaImageClassifier(DecidingMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method on images: a frozen backbone makes features of them, and a :class:`VoltaClassifier` decides.

    Images are a folder, a list of files, or an array of uint8 pixels, (n, h, w, 3) or (n, 3, h, w); they are resized
    to the backbone's size, not cropped. The features of the images given to ``fit`` are kept in the cache folder, so
    that a second fit on them, with another method or seed, computes none.

    Parameters
    ----------
    backbone
        ``efficientnet-lite0``, ``resnet18``, ``hf:MODEL``, ``timm:NAME``, a file ending in ``.onnx``, or a torch module
        from normalised images to features.
    method, protocol, scale, calibration, random_state, max_epochs, keep_rows, verbose, device
        As for :class:`VoltaClassifier`; ``device`` is also where the backbone runs.
    weights
        A file with the backbone's weights, in place of the usual ones.
    cache
        Folder of the feature cache; None: volta's cache folder.

    Attributes
    ----------
    classes_, policy_
        As for :class:`VoltaClassifier`.
    backbone_
        The backbone: its ``name``, the hash of its ``weights`` and its ``preprocessing``.
    classifier_
        The fitted classifier of its features.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> random = np.random.default_rng(0)
    >>> names = np.array(["dark", "light"])[np.arange(200) % 2]
    >>> brightness = random.normal(np.where(names == "light", 160.0, 100.0), 25.0).clip(0, 255)
    >>> pixels = np.ones((200, 8, 8, 3)) * brightness[:, None, None, None]
    >>> small = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    >>> classifier = VoltaImageClassifier(small).fit(pixels.astype(np.uint8), names)
    >>> classifier.predict(np.stack([np.full((8, 8, 3), 60), np.full((8, 8, 3), 200)]).astype(np.uint8)).tolist()
    ['dark', 'light']
    """

    def __init__(
        self,
        backbone: str | Path | nn.Module | Backbone = "efficientnet-lite0",
        *,
        weights: Path | str | None = None,
        cache: Path | str | None = None,
        device: str = "auto",
        verbose: bool = False,
        method: str | Method = "volta",
        protocol: ProtocolName = "fair",
        scale: ScaleName = "auto",
        calibration: CalibrationName = "auto",
        random_state: int | np.random.RandomState | None = 42,
        max_epochs: int | None = None,
        keep_rows: bool = False,
    ) -> None:
        self.backbone = backbone
        self.weights = weights
        self.cache = cache
        self.device = device
        self.verbose = verbose
        self.method = method
        self.protocol = protocol
        self.scale = scale
        self.calibration = calibration
        self.random_state = random_state
        self.max_epochs = max_epochs
        self.keep_rows = keep_rows

    def fit(
        self,
        X: ImageInput,  # noqa: N803
        y: ArrayLike | None = None,
        *,
        eval_set: tuple[ImageInput, ArrayLike | None] | None = None,
        cal_set: tuple[ImageInput, ArrayLike | None] | None = None,
    ) -> Self:
        """Fit on images and (n,) labels.

        X: a folder with one folder a class, which gives the labels, so that y is left out (where it has ``train`` and
        ``test`` folders, those under ``train``); a list of files; or an array of pixels. ``eval_set`` and ``cal_set``
        are pairs like X and y, as for :class:`VoltaClassifier`.
        """
        from volta.features.backbones.load import load_backbone

        self._use(load_backbone(self.backbone, weights=_path(self.weights)))
        rows, labels = self._labelled(X, y)
        own = {
            name: self._labelled(*given)
            for name, given in (("eval_set", eval_set), ("cal_set", cal_set))
            if given is not None
        }
        self.classifier_ = VoltaClassifier(
            self.method,
            encoder="vision",
            protocol=self.protocol,
            scale=self.scale,
            calibration=self.calibration,
            random_state=self.random_state,
            max_epochs=self.max_epochs,
            keep_rows=self.keep_rows,
            verbose=self.verbose,
            device=self.device,
        ).fit(rows, labels, **own)
        self._share()
        return self

    def features(self, X: ImageInput) -> NDArray[np.float32]:  # noqa: N803
        """Return (n, d) features of images, computed now: what ``classifier_`` sees."""
        self._fitted()
        images = as_images(X)
        if len(images) == 0:
            raise InputError("X holds no images; pass at least one")
        from volta.features.engines import run_batches

        return run_batches(self._engine(), images.batches(BATCH_ROWS))

    def explain(self, X: ImageInput, *, most: int = 3) -> list[Explanation]:  # noqa: N803
        """Return for each image the nearest classes, features out of range, and alike training images; see
        :meth:`VoltaClassifier.explain`. Training images are counted in the order ``fit`` saw them.
        """
        features = self.features(X)
        return self.classifier_.explain(features, most=most)

    def fit_policy(
        self, max_error: float | None = None, *, coverage: float | None = None, confidence: float = 0.95
    ) -> Policy:
        """Choose which images are answered; see :meth:`VoltaClassifier.fit_policy`."""
        self._fitted()
        policy = self.classifier_.fit_policy(max_error, coverage=coverage, confidence=confidence)
        self._share()
        return policy

    def save(self, path: Path | str) -> None:
        """Write the classifier to one file with a checksum, with the backbone's name and the hash of its weights.

        The backbone's weights are not in the file; :meth:`load` finds them again and refuses others.
        """
        from volta.estimators.saving import save_classifier

        self._fitted()
        state = {
            "classifier": self.classifier_._state(),
            "backbone_name": self.backbone_.name,
            "backbone_weights": self.backbone_.weights,
            "preprocessing": self.backbone_.preprocessing.to_json(),
        }
        parameters = {"backbone": self.backbone, "weights": self.weights, "cache": self.cache}
        plain = {name: str(value) if isinstance(value, str | Path) else None for name, value in parameters.items()}
        save_classifier(self, path, self.classifier_._methods(), state, **plain)

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        backbone: str | Path | nn.Module | Backbone | None = None,
        weights: Path | str | None = None,
    ) -> Self:
        """Return the classifier that :meth:`save` wrote.

        A file that was altered is refused, and so is a backbone whose weights are not those it was fitted with.
        ``backbone`` is needed where it was a torch module or comes from a hub, which a file alone may not reach for;
        ``weights`` where the file of weights lies elsewhere now.
        """
        from volta.estimators.saving import load_classifier
        from volta.features.backbones.backbone import Preprocessing
        from volta.features.backbones.load import is_from_hub, load_backbone
        from volta.methods.saving import MODEL_FILE

        methods, parameters, state, classes = load_classifier(Path(path), "VoltaImageClassifier")
        for name, given in (("backbone", backbone), ("weights", weights)):
            parameters[name] = parameters.get(name) if given is None else given
        with MODEL_FILE.parsing(path):
            fitted_with, digest = str(state["backbone_name"]), str(state["backbone_weights"])
            made = state["preprocessing"]
            seen = Preprocessing(tuple(made["size"]), tuple(made["mean"]), tuple(made["std"]))
        if parameters["backbone"] is None:
            raise InputError(
                f"{path} was fitted with the module {fitted_with}; pass it: load(path, backbone=module), or serve the "
                "graph that to_onnx writes"
            )
        if backbone is None and is_from_hub(str(parameters["backbone"])):
            raise InputError(
                f"{path} names the backbone {parameters['backbone']}, which may be fetched from a hub; if you trust "
                f"the file, pass it yourself: load(path, backbone={str(parameters['backbone'])!r}), or serve the graph "
                "that to_onnx writes"
            )
        found = load_backbone(parameters["backbone"], weights=_path(parameters["weights"]), preprocessing=seen)
        if found.weights != digest:
            raise StoreError(
                f"{path} was fitted with {fitted_with} weights {digest[:12]}…, but those of {found.name} here are "
                f"{found.weights[:12]}…; pass the same: load(path, weights=FILE)"
            )
        shared = {name: value for name, value in parameters.items() if name not in ("backbone", "weights", "cache")}
        with MODEL_FILE.parsing(path):
            classifier = cls(**parameters)
            classifier._use(found)
            classifier.classifier_ = VoltaClassifier(encoder="vision", **shared)
            classifier.classifier_._restore(methods, classes, state["classifier"])
            classifier._share()
        return classifier

    def to_onnx(self, path: Path | str, *, alpha: float = 0.1, fpr: float = 0.05) -> None:
        """Write one ONNX graph from pixels to decisions, with the backbone, resizing and normalisation inside.

        Its input is ``pixels``, (n, 3, h, w) uint8 RGB images of any size, all of one size in a call. Outputs and
        metadata are those of :meth:`VoltaClassifier.to_onnx`, and ``backbone`` and ``backbone_weights``.
        """
        from volta.estimators.onnx import export_images, fix_rules
        from volta.estimators.saving import file_path

        self._fitted()
        export_images(self.classifier_, self.backbone_, fix_rules(self.classifier_, alpha, fpr), file_path(path))

    def _use(self, backbone: Backbone) -> None:
        self.backbone_ = backbone
        self._made: Engine | None = None

    def _share(self) -> None:
        """Take over what decisions are made by; ``classifier_`` keeps the same objects."""
        inner = self.classifier_
        self.classes_, self.calibration_, self.set_score_ = inner.classes_, inner.calibration_, inner.set_score_
        self.members_ = inner.members_
        self.policy_, self.policy_settings_, self.seed_ = inner.policy_, inner.policy_settings_, inner.seed_

    def _engine(self) -> Engine:
        if self._made is None:
            from volta.features.engines import make_engine
            from volta.networks.trainer import pick_device

            self._made = make_engine(self.backbone_, device=pick_device(self.device), cache=_path(self.cache))
        return self._made

    def _labelled(self, images: ImageInput, y: ArrayLike | None) -> tuple[Array, Any]:
        """Return features, from the cache or kept there, and labels, from y or from the names of folders."""
        if isinstance(images, str | Path) and y is None:
            paths, labels = labelled_folder(Path(images))
            return self._cached(as_images(paths)), labels
        if y is None:
            raise InputError("y is None; pass a label for each image, or a folder with one folder a class")
        return self._cached(as_images(images)), y

    def _cached(self, images: Images) -> Array:
        from volta.features.extract import extract
        from volta.networks.trainer import pick_device

        shown = _show_progress if self.verbose else None
        device = pick_device(self.device)
        made = extract(images, self.backbone_, cache=_path(self.cache), device=device, on_progress=shown)
        return made.array

    def _inputs(self, X: Any) -> Array:  # noqa: N803
        return self.features(X)

    def _score(self, inputs: Any) -> Scored:
        return self.classifier_._score(inputs)


def _path(value: Path | str | None) -> Path | None:
    return None if value is None else Path(value)


def _show_progress(progress: ExtractionProgress) -> None:
    print(f"features: {progress.n_done} of {progress.n_rows} images, {progress.rate:.0f} a second", file=sys.stderr)
