"""What packages of other people compute, written down for tests/nn/test_position_packages.py.

    python -m venv refs
    refs/bin/pip install torch==2.13.0 transformers==5.23.0 x-transformers==2.31.10 rotary-embedding-torch==0.9.1
    refs/bin/pip install --no-deps OpenNMT-py==3.5.1 fla-core==0.6.0 nemo-toolkit==1.23.0 torchscale==0.3.0
    refs/bin/python tests/nn/references/make.py

One JSON file an encoding, with the packages and versions that it comes from, the inputs and what came out. The tests
read the files alone and need none of these packages. Written with torch 2.13.0 on a CPU; the last digits may differ
elsewhere. Of four packages single files are loaded: as a whole they want much more than is needed here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).parent
VERSIONS = {
    "transformers": "5.23.0",
    "x-transformers": "2.31.10",
    "rotary-embedding-torch": "0.9.1",
    "OpenNMT-py": "3.5.1",
    "fla-core": "0.6.0",
    "nemo-toolkit": "1.23.0",
    "torchscale": "0.3.0",
}
N = 12

Results = dict[str, Any]
MAKERS: dict[str, tuple[tuple[str, ...], Callable[[], Results]]] = {}


def reference(name: str, *packages: str) -> Callable[[Callable[[], Results]], Callable[[], Results]]:
    """The decorated function makes `name`.json from these packages."""

    def remember(make: Callable[[], Results]) -> Callable[[], Results]:
        MAKERS[name] = (packages, make)
        return make

    return remember


def wave(seed: int, *shape: int) -> Tensor:
    """Numbers between -1 and 1 without a pattern that an encoding could share: sin(seed + 1), sin(seed + 4), …,
    sin(seed + k²)."""
    count = torch.Size(shape).numel()
    return (seed + torch.arange(1, count + 1, dtype=torch.float64) ** 2).sin().reshape(shape)


def alone(module: str, **stand_ins: ModuleType) -> ModuleType:
    """Import one module of a package without running the `__init__` of the packages it lies in."""
    sys.modules.update(stand_ins)
    parts = module.split(".")
    if parts[0] not in sys.modules:
        spec = importlib.util.find_spec(parts[0])
        assert spec is not None and spec.submodule_search_locations
        sys.modules[parts[0]] = ModuleType(parts[0])
        sys.modules[parts[0]].__path__ = list(spec.submodule_search_locations)
    (folder,) = sys.modules[parts[0]].__path__
    for depth in range(2, len(parts)):
        parent = ModuleType(".".join(parts[:depth]))
        parent.__path__ = [str(Path(folder, *parts[1:depth]))]
        sys.modules[parent.__name__] = parent
    return import_module(module)


@reference("sinusoidal", "OpenNMT-py")
def sinusoidal() -> Results:
    embeddings = alone("onmt.modules.embeddings")
    encoding = embeddings.PositionalEncoding(8, "SinusoidalInterleaved", max_len=50)
    return {"table": encoding.pe[:, 0]}


@reference("rotary", "transformers", "rotary-embedding-torch")
def rotary() -> Results:
    """Queries and keys turned: in halves by transformers, in pairs by rotary-embedding-torch."""
    from rotary_embedding_torch import RotaryEmbedding
    from transformers.models.llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    q, k = wave(0, 1, 1, N, 16), wave(1, 1, 1, N, 16)
    results: Results = {"q": q, "k": k, "half": {}, "interleaved": {}, "frequencies": {}}
    original = {"factor": 4.0, "original_max_position_embeddings": 100}
    for name, options in {
        "none": {"rope_type": "default"},
        "linear": {"rope_type": "linear", "factor": 4.0},
        "llama3": {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, **original},
        "llama3, 32": {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 32.0, **original},
        "yarn": {"rope_type": "yarn", **original},
    }.items():
        config = LlamaConfig(
            hidden_size=32,
            num_attention_heads=2,
            max_position_embeddings=400,
            rope_parameters={"rope_theta": 10000.0, **options},
        )
        module = LlamaRotaryEmbedding(config)
        cos, sin = module(q, torch.arange(N)[None])
        results["half"][name] = apply_rotary_pos_emb(q, k, cos, sin)
        results["frequencies"][name] = module.inv_freq
    for name, options in {
        "none": {},
        "linear": {"interpolate_factor": 4.0},
        "ntk": {"theta_rescale_factor": 4.0},
    }.items():
        module = RotaryEmbedding(16, cache_if_possible=False, **options)
        results["interleaved"][name] = [module.rotate_queries_or_keys(x) for x in (q, k)]
    return results


@reference("xpos", "torchscale")
def xpos() -> Results:
    """The scores (1, N, N); of keys ahead too, which a causal model never reads."""
    module = alone("torchscale.component.xpos_relative_position").XPOS(8).double()
    q, k = wave(2, 1, N, 8), wave(3, 1, N, 8)
    return {"q": q, "k": k, "scores": module(q) @ module(k, downscale=True).transpose(1, 2)}


@reference("alibi", "transformers", "OpenNMT-py")
def alibi() -> Results:
    """Slopes for 1 to 16 heads, twice; and the bias in both directions for 6 heads."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    both = alone("onmt.modules.alibi_position_bias").AlibiPositionalBias(6)
    return {
        "bloom": {
            str(heads): build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
            for heads in range(1, 17)
        },
        "mpt": {str(heads): -build_mpt_alibi_tensor(heads, 2)[:, 0, 0] for heads in range(1, 17)},
        "bidirectional": both(torch.zeros(1, 6, N, N))[0],
    }


@reference("t5", "transformers")
def t5() -> Results:
    """Buckets of the offsets -200 … 200, and the bias of two heads."""
    from transformers.models.t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    results: Results = {"table": wave(4, 32, 2)}
    offsets = torch.arange(-200, 201)
    for causal in (False, True):
        name = "causal" if causal else "bidirectional"
        config = T5Config(d_model=8, d_kv=4, num_heads=2, is_decoder=causal)
        attention = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
        attention.relative_attention_bias.weight.data = wave(4, 32, 2)
        results[name] = {
            "buckets": T5Attention._relative_position_bucket(offsets, bidirectional=not causal),
            "narrow buckets": T5Attention._relative_position_bucket(
                offsets, bidirectional=not causal, num_buckets=12, max_distance=50
            ),
            "bias": attention.compute_bias(N, N)[0].detach(),
        }
    return results


@reference("shaw", "OpenNMT-py")
def shaw() -> Results:
    """The output of attention with one table for keys and values: bidirectional, and under a causal mask."""
    module = alone("onmt.modules.multi_headed_attn").MultiHeadedAttention
    attention = module(2, 8, dropout=0.0, is_decoder=False, max_relative_positions=2, attn_type="self")
    weights = {
        name: 2 * wave(seed, 8, 8)
        for seed, name in enumerate(("linear_query", "linear_keys", "linear_values", "final_linear"), 5)
    }
    for name, weight in weights.items():
        getattr(attention, name).weight.data = weight.float()
    table, x = wave(9, 5, 4), wave(10, 1, N, 8)
    attention.relative_positions_embeddings.weight.data = table.float()
    ahead = torch.ones(1, 1, N, N, dtype=torch.bool).triu(1)
    y, causal = (attention(x.float(), x.float(), x.float(), mask=mask)[0] for mask in (None, ahead))
    return {"weights": weights, "table": table, "x": x, "bidirectional": y, "causal": causal}


@reference("transformer_xl", "transformers")
def transformer_xl() -> Results:
    """The weights of XLNet's attention, which is Transformer-XL's for both directions. Its sinusoid has all sines
    first."""
    from transformers.models.xlnet import XLNetConfig, XLNetModel

    config = XLNetConfig(vocab_size=2, d_model=8, n_layer=1, n_head=2, d_inner=8, attn_type="bi", dropout=0.0)
    model = XLNetModel(config).double().eval()
    attention = model.layer[0].rel_attn
    u, v, r = wave(11, 2, 4), wave(12, 2, 4), wave(13, 8, 2, 4)
    attention.r_w_bias.data, attention.r_r_bias.data = u, v
    q, k, values = (wave(seed, N, 1, 2, 4) for seed in (14, 15, 16))
    distances = torch.einsum("ibh,hnd->ibnd", model.relative_positional_encoding(N, N).double(), r)
    results: Results = {"u": u, "v": v, "r": r, "q": q[:, 0], "k": k[:, 0]}
    ahead = torch.ones(N, N, dtype=torch.float64).triu(1)[:, :, None, None]
    for name, mask in (("bidirectional", None), ("causal", ahead)):
        _, weights = attention.rel_attn_core(q, k, values, distances, attn_mask=mask, output_attentions=True)
        results[name] = weights[:, :, 0].permute(2, 0, 1)
    return results


@reference("kerple", "nemo-toolkit")
def kerple() -> Results:
    """The logarithmic kernel; this package has no other without a logarithm."""
    module = alone(f"{NEMO}.kerple_relative_position_embedding")
    encoding = module.KERPLERelativePositionEmbedding(True, 3, None, max_seq_len=N)
    strength, shape = torch.tensor([0.5, 1.5, 0.02]), torch.tensor([1.0, 0.25, 7.0])
    encoding.kerple_b.data, encoding.kerple_a.data = strength[:, None, None], shape[:, None, None]
    return {"strength": strength, "shape": shape, "bias": encoding(N, N)[0]}


@reference("sandwich", "nemo-toolkit")
def sandwich() -> Results:
    decorators = ModuleType("nemo.utils.decorators")
    decorators.experimental = lambda one: one  # type: ignore[attr-defined]
    module = alone(
        f"{NEMO}.sandwich_relative_position_embedding",
        **{"nemo.utils": ModuleType("nemo.utils"), "nemo.utils.decorators": decorators},
    )
    encoding = module.SandwichRelativePositionEmbedding(True, 4, None, hidden_size=16, max_seq_len=N)
    return {"dim": 16, "bias": encoding(N, N)[0]}


NEMO = "nemo.collections.nlp.modules.common.megatron.position_embedding"


@reference("cope", "x-transformers")
def cope() -> Results:
    """What is added to the logits; of keys ahead too, which a causal model never reads."""
    from x_transformers.x_transformers import CoPE

    q, k, table = 2 * wave(17, 1, 2, N, 4), 2 * wave(18, 1, 2, N, 4), wave(19, 5, 4)
    module = CoPE(dim=4, heads=2, max_pos=5).double()
    module.pos_emb.data = table
    ahead = torch.ones(N, N, dtype=torch.bool).triu(1)
    logits = (q @ k.transpose(-2, -1) / 2).masked_fill(ahead, -torch.finfo(torch.float64).max)
    return {"q": q, "k": k, "table": table, "added": module(q, logits).masked_fill(ahead, 0.0)}


@reference("forgetting", "x-transformers", "fla-core")
def forgetting() -> Results:
    """The bias from the layer's input, and the output of attention from the logarithms of the gates."""
    from x_transformers.x_transformers import DataDependentAlibi

    naive = alone("fla.ops.forgetting_attn.naive").naive_forgetting_attn
    x, weight, bias = wave(20, 1, N, 8), wave(21, 2, 8), wave(22, 2)
    module = DataDependentAlibi(dim=8, heads=2).double()
    linear = module.to_forget_gates[0]
    start = linear.bias.data.clone()
    linear.weight.data, linear.bias.data = weight, bias
    q, k, v = (wave(seed, 1, N, 2, 4) for seed in (23, 24, 25))
    gates = torch.nn.functional.logsigmoid(x @ weight.T + bias)
    given = {"x": x, "weight": weight, "bias": bias, "q": q, "k": k, "v": v, "start": start}
    return {**given, "added": module(x), "output": naive(q, k, v, gates)}


def plain(value: Any) -> Any:
    """Tensors as lists, their numbers to nine digits."""
    if isinstance(value, Tensor):
        return plain(value.detach().tolist())
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main() -> None:
    for package, version in VERSIONS.items():
        if (found := importlib.metadata.version(package)) != version:
            raise SystemExit(f"{package}=={version} is needed, {found} is installed")
    for name, (packages, make) in MAKERS.items():
        with torch.no_grad():
            results = make()
        content = {"packages": {package: VERSIONS[package] for package in packages}, **results}
        (HERE / f"{name}.json").write_text(json.dumps(plain(content)) + "\n")
        print(f"{name}.json from {', '.join(packages)}")


if __name__ == "__main__":
    main()
