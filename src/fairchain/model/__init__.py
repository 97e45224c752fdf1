"""What is asked about: a network, loaded as untrusted input, that turns feature values into class numbers."""

from fairchain.model.onnx_model import OnnxModel, describe_input
from fairchain.model.untrusted import Limits

__all__ = ["Limits", "OnnxModel", "describe_input"]
