"""Models of any kind, loaded as untrusted input, that map feature values to class indices."""

from fairchain.models.base import Model, describe_input
from fairchain.models.load import load_model, to_onnx
from fairchain.models.onnx.file_checks import Limits
from fairchain.models.onnx.session import OnnxModel

__all__ = ["Limits", "Model", "OnnxModel", "describe_input", "load_model", "to_onnx"]
