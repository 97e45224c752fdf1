"""Neural networks in every format that people have, trained on the census data with mixed columns.

All but those with several inputs have the weights of one scikit-learn network, which takes category codes and numbers
as they are in the table; what each decides is computed by its own package, or by numpy for a file without one.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.test_h5 import layer, saved

HIDDEN, SEED = 16, 0
LABELS = {"labels": ["<=50K", ">50K"]}


def coded(frame: Any, columns: list[str]) -> Any:
    """Return numbers, and the codes of categories, (rows, columns)."""
    return np.stack(
        [np.asarray(frame[name].cat.codes if hasattr(frame[name], "cat") else frame[name], float) for name in columns],
        axis=1,
    )


@cache
def _trained(inputs: bytes, labels: bytes, width: int) -> tuple[tuple[Any, Any], ...]:
    from sklearn.neural_network import MLPClassifier

    rows = np.frombuffer(inputs).reshape(-1, width)
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    network = MLPClassifier((HIDDEN,), max_iter=12, learning_rate_init=0.01, random_state=SEED)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge in so few steps
        network.fit((rows - mean) / spread, np.frombuffer(labels, bool))
    (first, last), (bias, end) = network.coefs_, network.intercepts_
    first = first / spread[:, None]
    # The score of the first label is 0, and that of the second is the logit.
    both = np.concatenate([np.zeros_like(last), last], axis=1), np.concatenate([[0.0], end])
    return (first, bias - mean @ first), both


def layers_of(inputs: Any, favourable: Any) -> tuple[tuple[Any, Any], ...]:
    """Return the weights, (inputs, outputs), and biases of a network with one hidden layer of ReLUs and two scores."""
    rows = np.ascontiguousarray(inputs, float)
    return _trained(rows.tobytes(), np.asarray(favourable, bool).tobytes(), rows.shape[1])


def chosen_by(layers: Any, inputs: Any) -> Any:
    """Return for which rows the second score is larger, in single precision as the formats have it."""
    (first, bias), (last, end) = [(np.float32(w), np.float32(b)) for w, b in layers]
    scores = np.maximum(np.float32(inputs) @ first + bias, 0) @ last + end
    return scores[:, 1] > scores[:, 0]


def torch_module(layers: Any) -> Any:
    import torch

    sizes = [layers[0][0].shape[0], *(weights.shape[1] for weights, _ in layers)]
    parts = [torch.nn.Linear(before, after) for before, after in pairwise(sizes)]
    with torch.no_grad():
        for part, (weights, bias) in zip(parts, layers, strict=True):
            part.weight.copy_(torch.tensor(weights.T))
            part.bias.copy_(torch.tensor(bias))
    return torch.nn.Sequential(parts[0], torch.nn.ReLU(), parts[1])


def torch_decides(module: Any, *inputs: Any) -> Any:
    import torch

    with torch.no_grad():
        scores = module(*(torch.as_tensor(each) for each in inputs))
    return (scores[:, 1] > scores[:, 0]).numpy()


def torch_with_embeddings(frame: Any, words: list[str], numbers: list[str], favourable: Any) -> tuple[Any, Any]:
    """Return a module of two arguments, and its decisions: codes for embeddings, and numbers."""
    import torch

    sizes = [len(frame[name].cat.categories) for name in words]

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tables = torch.nn.ModuleList(torch.nn.Embedding(size, 3) for size in sizes)
            self.scaled = torch.nn.BatchNorm1d(len(numbers))
            self.last = torch.nn.Linear(3 * len(sizes) + len(numbers), 2)

        def forward(self, words: Any, numbers: Any) -> Any:
            parts = [table(words[:, place]) for place, table in enumerate(self.tables)]
            return self.last(torch.cat([*parts, self.scaled(numbers)], dim=1))

    torch.manual_seed(SEED)
    network = Network()
    codes, reals = torch.tensor(coded(frame, words)).long(), torch.tensor(coded(frame, numbers)).float()
    truth, optimizer = torch.tensor(np.asarray(favourable)).long(), torch.optim.Adam(network.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(codes, reals), truth).backward()
        optimizer.step()
    network.eval()
    return network, torch_decides(network, codes, reals)


def keras_model(layers: Any) -> Any:
    import keras

    parts = [keras.Input((len(layers[0][0]),)), keras.layers.Dense(HIDDEN, activation="relu"), keras.layers.Dense(2)]
    model = keras.Sequential(parts)
    model.set_weights([array for pair in layers for array in pair])
    return model


def keras_decides(model: Any, *inputs: Any) -> Any:
    given = [np.asarray(each) for each in inputs]
    scores = np.asarray(model.predict_on_batch(given if len(given) > 1 else given[0]))
    return scores[:, 1] > scores[:, 0]


def keras_with_embeddings(frame: Any, words: list[str], numbers: list[str], favourable: Any) -> tuple[Any, Any]:
    """Return a model with two inputs, and its decisions: codes for an embedding, and numbers."""
    import keras

    keras.utils.set_random_seed(SEED)
    layers, size = keras.layers, max(len(frame[name].cat.categories) for name in words)
    codes, reals = keras.Input((len(words),), dtype="int32", name="codes"), keras.Input((len(numbers),), name="amounts")
    inputs = coded(frame, numbers)
    scaled = layers.Normalization(mean=inputs.mean(axis=0).tolist(), variance=inputs.var(axis=0).tolist())(reals)
    embedded = layers.Flatten()(layers.Embedding(size, 3)(codes))
    model = keras.Model([codes, reals], layers.Dense(2)(layers.Concatenate()([embedded, scaled])))
    model.compile(keras.optimizers.Adam(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    given = [coded(frame, words).astype(np.int32), inputs.astype(np.float32)]
    model.fit(given, np.asarray(favourable).astype(int), batch_size=512, epochs=2, verbose=0)
    return model, keras_decides(model, *given)


def onnx_file(path: Path, layers: Any) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, made, name = [], [], "values"
    for place, (weights, bias) in enumerate(layers):
        made += [
            numpy_helper.from_array(np.float32(each), f"{kind}{place}") for each, kind in ((weights, "w"), (bias, "b"))
        ]
        nodes.append(helper.make_node("Gemm", [name, f"w{place}", f"b{place}"], [f"sum{place}"]))
        name = f"sum{place}"
        if place < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [name], [f"relu{place}"]))
            name = f"relu{place}"
    ends = [("values", len(layers[0][0])), (name, 2)]
    first, last = (helper.make_tensor_value_info(each, TensorProto.FLOAT, ["N", size]) for each, size in ends)
    graph = helper.make_graph(nodes, "network", [first], [last], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def h5_file(path: Path, layers: Any) -> Path:
    described = [
        layer(
            "Dense",
            "dense",
            units=HIDDEN,
            activation="relu",
            use_bias=True,
            batch_input_shape=[None, len(layers[0][0])],
        ),
        layer("Dense", "dense_1", units=2, activation="linear", use_bias=True),
    ]
    return saved(path, described, {"dense": list(layers[0]), "dense_1": list(layers[1])})


def nnet_file(path: Path, layers: Any, inputs: Any) -> Path:
    """Write the text format: sizes, ranges of the inputs, their scaling, then each layer by rows."""

    def line(numbers: Any) -> str:
        return ",".join(f"{float(number):.9g}" for number in numbers) + ",\n"

    sizes = [len(layers[0][0]), *(weights.shape[1] for weights, _ in layers)]
    text = line([len(layers), sizes[0], sizes[-1], max(sizes)]) + line(sizes) + "0,\n"
    text += line(inputs.min(axis=0)) + line(inputs.max(axis=0))
    text += line([0.0] * (sizes[0] + 1)) + line([1.0] * (sizes[0] + 1))
    for weights, bias in layers:
        text += "".join(line(row) for row in weights.T) + "".join(line([each]) for each in bias)
    path.write_text(text)
    return path
