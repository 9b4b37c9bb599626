"""One file per method, one table in ``registry.py``, one contract in ``base.py``.

Names are imported when they are used: the ablation's rows can be named without loading PyTorch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volta.methods.ablation import ABLATION
    from volta.methods.base import Method
    from volta.methods.registry import METHODS, RegisteredMethod, find_method, method_names, name_of

__all__ = ["ABLATION", "METHODS", "Method", "RegisteredMethod", "find_method", "method_names", "name_of"]


def __getattr__(name: str) -> Any:
    """Return a name of the registry, loading every method with it."""
    if name in __all__:
        from volta.methods import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'volta.methods' has no attribute {name!r}")
