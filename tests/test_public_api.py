"""The names people import, pinned; and what importing them costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fairchain

NAMES = {
    "Audit", "AuditError", "CertificateError", "Chain", "ChainError", "CheckpointError", "Coupled", "DataError",
    "Decision", "ExecutorError", "Explanation",
    "FairchainError", "FamilyVerdict", "InputError", "Interval", "Limits", "ModelError", "Monitor", "OnnxModel",
    "VerificationPlan", "Progress", "Service",
    "QueryError", "Recheck", "Repair", "Spec", "SpecError", "SubgroupSearch", "Verdict", "__version__", "as_frames",
    "assert_fair",
    "audit", "check",
    "check_chain", "example", "explain", "find_subgroups", "infer_spec", "isolated", "learn_chain", "learn_family",
    "journaled", "load_model",
    "load_spec", "make_certificate", "parse_spec", "plan", "read_chain", "recheck", "repair", "to_onnx", "verify",
    "verify_family", "write_certificate", "write_chain", "write_repair",
}  # fmt: skip


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_public_names_are_these() -> None:
    assert set(fairchain.__all__) == NAMES
    for name in NAMES:
        assert getattr(fairchain, name) is not None
    assert set(dir(fairchain)) == NAMES


def test_every_public_function_states_its_types() -> None:
    for name in NAMES:
        function = getattr(fairchain, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            assert signature.return_annotation is not signature.empty, name
            assert all(each.annotation is not each.empty for each in signature.parameters.values()), name
    assert Path(fairchain.__file__).with_name("py.typed").exists()


def test_a_name_is_the_same_thing_whatever_was_imported_before() -> None:
    code = """
import fairchain.rechecking, fairchain.verification, fairchain.certificates
import fairchain as f
print(callable(f.verify), callable(f.recheck))
"""
    assert python(code) == "True True"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="verfy"):
        fairchain.verfy  # noqa: B018


def test_importing_fairchain_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'onnx', 'onnxruntime', 'msgspec', 'click', 'rich', 'scipy'}"
    assert python(f"import sys, fairchain; print({heavy} & set(sys.modules))") == "set()"


def test_a_plain_verdict_needs_no_scipy_and_no_optional_package() -> None:
    """Also true where these are installed, as here: they are made impossible to import."""
    code = """
import sys
for name in ("scipy", "torch", "sklearn", "pandas", "polars", "keras", "skl2onnx", "rich", "click"):
    sys.modules[name] = None
import fairchain
print(fairchain.verify(None, fairchain.example("census")).decision.name)
"""
    assert python(code) == "FAIR"


def test_a_plain_verdict_imports_no_tables_and_no_python_models() -> None:
    """They would take a tenth of a first verdict's time; two workers are threads without `concurrent.futures`."""
    unused = "{'fairchain.tables', 'fairchain.models.adapters', 'concurrent.futures', 'logging', 'subprocess'}"
    code = "import sys, fairchain; fairchain.verify(None, fairchain.example('census'), workers=2, refine=0.01)"
    assert python(f"{code}; print({unused} & set(sys.modules))") == "set()"


def test_one_except_clause_catches_everything_raised_on_purpose() -> None:
    assert issubclass(fairchain.SpecError, fairchain.InputError)
    assert issubclass(fairchain.InputError, fairchain.FairchainError)
