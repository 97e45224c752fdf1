"""ONNX networks: checks of the file, encoding of inputs, the runtime session, and the decision rule."""
