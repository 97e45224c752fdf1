"""What is asked about: a model of any kind, loaded as untrusted input, that turns feature values into class numbers."""

from fairchain.model.asking import Model, describe_input
from fairchain.model.frames import as_frames
from fairchain.model.load import load_model, to_onnx
from fairchain.model.onnx_model import OnnxModel
from fairchain.model.untrusted import Limits

__all__ = ["Limits", "Model", "OnnxModel", "as_frames", "describe_input", "load_model", "to_onnx"]
