"""Well-known architectures with random weights, exported by PyTorch: language, vision, audio, and what joins them.

python benchmarks/architectures.py FOLDER [NAME ...]      needs torch, transformers, onnxscript and onnxruntime

Layers and widths are small, so that a whole set is made in minutes; everything else is as in the published models. The
seed is fixed. A name that the installed libraries cannot export is reported, and the others go on.
"""

# The libraries that export are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import onnx
import onnx.compose
import onnx.parser
import torch
import transformers
from torch import Tensor, nn

Example = tuple[nn.Module, dict[str, Tensor]]
_TOKENS: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_IMAGE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 64,
}


class Outputs(nn.Module):
    """The named outputs of a model of transformers, without its cache."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, **inputs: Tensor) -> tuple[Tensor, ...]:
        found = self.model(**inputs, return_dict=True)
        return tuple(getattr(found, name) for name in self.names)


def _tokens(length: int = 16, mask: bool = True) -> dict[str, Tensor]:
    inputs = {"input_ids": torch.randint(3, 1000, (2, length))}
    return inputs | ({"attention_mask": torch.ones(2, length, dtype=torch.int64)} if mask else {})


def _encoder(name: str, **changes: Any) -> Example:
    config = getattr(transformers, f"{name}Config")(**(_TOKENS | changes))
    return Outputs(getattr(transformers, f"{name}Model")(config), ("last_hidden_state",)), _tokens()


def _decoder(name: str, model: str | None = None, **changes: Any) -> Example:
    config = getattr(transformers, f"{name}Config")(**(_TOKENS | {"use_cache": False} | changes))
    return Outputs(getattr(transformers, model or f"{name}ForCausalLM")(config), ("logits",)), _tokens()


def _picture(name: str, output: str = "last_hidden_state", **settings: Any) -> Example:
    config = getattr(transformers, f"{name}Config")(**settings)
    return Outputs(getattr(transformers, f"{name}Model")(config), (output,)), {
        "pixel_values": torch.randn(1, 3, 64, 64)
    }


def _t5() -> Example:
    # The fused attention of these two cannot be decomposed by the exporter of PyTorch 2.13.
    config = transformers.T5Config(
        vocab_size=1000, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False,
        attn_implementation="eager",
    )  # fmt: skip
    inputs = _tokens() | {"decoder_input_ids": torch.randint(3, 1000, (2, 8))}
    return Outputs(transformers.T5ForConditionalGeneration(config), ("logits",)), inputs


def _whisper() -> Example:
    config = transformers.WhisperConfig(
        vocab_size=1000, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=16, max_source_positions=50,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        use_cache=False,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(1, 16, 100), "decoder_input_ids": torch.randint(3, 1000, (1, 8))}
    return Outputs(transformers.WhisperForConditionalGeneration(config), ("logits",)), inputs


def _clip() -> Example:
    text = dict(_TOKENS, max_position_embeddings=32, bos_token_id=1, eos_token_id=2)
    config = transformers.CLIPConfig(text_config=text, vision_config=dict(_IMAGE, patch_size=16), projection_dim=32)
    inputs = _tokens() | {"pixel_values": torch.randn(2, 3, 64, 64)}
    return Outputs(transformers.CLIPModel(config), ("logits_per_image", "text_embeds")), inputs


def _detr() -> Example:
    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=backbone, use_pretrained_backbone=False, d_model=64,
        encoder_layers=2, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10,
        encoder_attention_heads=4, decoder_attention_heads=4,
    )  # fmt: skip
    model = transformers.DetrForObjectDetection(config)
    inputs = {"pixel_values": torch.randn(1, 3, 64, 64), "pixel_mask": torch.ones(1, 64, 64, dtype=torch.int64)}
    return Outputs(model, ("logits", "pred_boxes")), inputs


def _wav2vec2() -> Example:
    config = transformers.Wav2Vec2Config(**_TOKENS, conv_dim=(32,) * 7, num_conv_pos_embeddings=16)
    return Outputs(transformers.Wav2Vec2ForCTC(config), ("logits",)), {"input_values": torch.randn(1, 4000)}


class Samples(nn.Module):
    """Normalize 16-bit samples, as the feature extractor does before this model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = _wav2vec2()[0]

    def forward(self, samples: Tensor) -> tuple[Tensor, ...]:
        centred = samples - samples.mean(-1, keepdim=True)
        return self.model(input_values=centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-7))


def _outliers() -> Example:
    """One channel is as large as those of trained language models."""
    model, inputs = _decoder("Llama", **_KEYS)
    with torch.no_grad():
        model.model.model.embed_tokens.weight[:, 7] = 1000.0
    return model, inputs


class UNet(nn.Module):
    """Convolutions down and up with skips, group normalisation attention in the middle, as diffusion models have."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.start = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(3))
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up = nn.ConvTranspose2d(width, width, 4, 2, 1)
        self.end = nn.Conv2d(2 * width, 4, 3, padding=1)

    def forward(self, sample: Tensor, timestep: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(16, device=sample.device) * 0.5)
        angles = timestep[:, None].float() * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        skip = self.start(sample)
        x = nn.functional.silu(self.norms[0](self.down(skip))) + time
        x = x + self.middle(nn.functional.silu(self.norms[1](x)))
        rows = self.norms[2](x).flatten(2).transpose(1, 2)
        heads = [t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(rows).chunk(3, -1)]
        mixed = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + self.out(mixed).transpose(1, 2).unflatten(-1, x.shape[2:])
        return self.end(torch.cat([self.up(x), skip], 1))


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Module:
    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
    )


class Detector(nn.Module):
    """The blocks of YOLOv8: strides, a bottleneck, pooling of three sizes, a pyramid, and boxes as distributions."""

    def __init__(self, width: int = 16, classes: int = 8, bins: int = 16) -> None:
        super().__init__()
        self.bins = bins
        self.stem = nn.Sequential(_conv(3, width, stride=2), _conv(width, 2 * width, stride=2))
        self.inner, self.joined = _conv(width, width), _conv(3 * width, 2 * width, 1)
        self.down, self.pool = _conv(2 * width, 2 * width, stride=2), nn.MaxPool2d(5, 1, 2)
        self.pooled = _conv(8 * width, 2 * width, 1)
        self.larger, self.up = nn.Upsample(scale_factor=2), _conv(4 * width, 2 * width)
        self.boxes, self.scores = nn.Conv2d(2 * width, 4 * bins, 1), nn.Conv2d(2 * width, classes, 1)
        self.register_buffer("places", torch.arange(bins, dtype=torch.float32))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (x := self.stem(images)).chunk(2, 1)
        x = self.joined(torch.cat([first, second, second + self.inner(second)], 1))
        y = self.down(x)
        pools = [y, self.pool(y), self.pool(self.pool(y)), self.pool(self.pool(self.pool(y)))]
        z = self.up(torch.cat([self.larger(self.pooled(torch.cat(pools, 1))), x], 1))
        boxes = self.boxes(z).flatten(2).unflatten(1, (4, self.bins)).softmax(2)
        return (boxes * self.places[None, None, :, None]).sum(2) * 4.0, self.scores(z).flatten(2).sigmoid()


class Recurrent(nn.Module):
    """A bidirectional LSTM over embedded tokens, and a GRU on top."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 32)
        self.lstm = nn.LSTM(32, 48, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.head = nn.GRU(96, 32, batch_first=True), nn.Linear(32, 1000)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.gru(self.lstm(self.words(tokens))[0])[0])


class Experts(nn.Module):
    """A layer of experts: every expert computed, the two best of each token mixed by their softmax."""

    def __init__(self, width: int = 64, count: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.first = nn.Parameter(torch.randn(count, width, 2 * width) * 0.1)
        self.second = nn.Parameter(torch.randn(count, 2 * width, width) * 0.1)
        self.norm = nn.RMSNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.norm(x)
        best, index = self.router(rows).topk(2, -1)
        weights = torch.zeros_like(self.router(rows)).scatter(-1, index, best.softmax(-1))
        hidden = nn.functional.gelu(torch.einsum("btd,edf->betf", rows, self.first))
        return x + torch.einsum("betf,efd,bte->btd", hidden, self.second, weights)


class JointBlock(nn.Module):
    """A block of Stable Diffusion 3: text and picture modulated by time, attending to each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulations = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.qkv, self.out = (nn.ModuleList(nn.Linear(width, n * width) for _ in range(2)) for n in (3, 1))
        self.first = nn.ModuleList(nn.LayerNorm(width, 1e-6, False) for _ in range(2))
        self.second = nn.ModuleList(nn.LayerNorm(width, 1e-6, False) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width // heads, 1e-6) for _ in range(4))
        mlps = [(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)) for _ in range(2)]
        self.mlps = nn.ModuleList(nn.Sequential(*layers) for layers in mlps)

    def forward(self, streams: list[Tensor], time: Tensor) -> list[Tensor]:
        changes = [layer(nn.functional.silu(time))[:, None].chunk(6, -1) for layer in self.modulations]
        heads: list[list[Tensor]] = [[], [], []]
        for i, (x, (shift, scale, *_)) in enumerate(zip(streams, changes, strict=True)):
            parts = self.qkv[i](self.first[i](x) * (1 + scale) + shift).chunk(3, -1)
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
            for whole, part in zip(heads, (self.norms[2 * i](q), self.norms[2 * i + 1](k), v), strict=True):
                whole.append(part)
        mixed = nn.functional.scaled_dot_product_attention(*(torch.cat(parts, 2) for parts in heads))
        rows = mixed.transpose(1, 2).flatten(2).split([x.shape[1] for x in streams], 1)
        results: list[Tensor] = []
        for i, (x, row, change) in enumerate(zip(streams, rows, changes, strict=True)):
            x = x + change[2] * self.out[i](row)
            results.append(x + change[5] * self.mlps[i](self.second[i](x) * (1 + change[4]) + change[3]))
        return results


class JointTransformer(nn.Module):
    """The transformer of Stable Diffusion 3: patches of a picture and text, and a time step."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches, self.text = nn.Conv2d(16, width, 2, 2), nn.Linear(96, width)
        self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.places = nn.Parameter(torch.randn(1, 64, width) * 0.02)
        self.blocks = nn.ModuleList(JointBlock(width, 4) for _ in range(2))
        self.norm, self.last = nn.LayerNorm(width, 1e-6, False), nn.Linear(width, 64)

    def forward(self, latent: Tensor, text: Tensor, timestep: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(32, device=latent.device) * 0.28)
        angles = timestep[:, None].float() * frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        streams = [self.text(text), self.patches(latent).flatten(2).transpose(1, 2) + self.places]
        for block in self.blocks:
            streams = block(streams, time)
        rows = self.last(self.norm(streams[1])).unflatten(1, (8, 8)).unflatten(-1, (2, 2, 16))
        return rows.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)


class Forecast(nn.Module):
    """A series scaled by its own mean and deviation, an LSTM over it, and the next values in the scale of the input."""

    def __init__(self, width: int = 48, ahead: int = 8) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, width, num_layers=2, batch_first=True), nn.Linear(width, 3 * ahead)

    def forward(self, series: Tensor) -> Tensor:
        mean = series.mean(1, keepdim=True)
        deviation = torch.sqrt(series.var(1, keepdim=True, unbiased=False) + 1e-5)
        state = self.lstm((series - mean) / deviation)[0][:, -1]
        return self.head(state).unflatten(-1, (-1, 3)) * deviation + mean


class Steps(nn.Module):
    """A cell repeated by a loop in the graph, as greedy decoding is exported."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.cell, self.head = nn.Linear(2 * width, width), nn.Linear(width, 1000)

    def forward(self, sequence: Tensor, start: Tensor) -> Tensor:
        def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(self.cell(torch.cat([state, x], -1)))
            return state, state.clone()

        _, states = torch._higher_order_ops.scan(step, start, sequence)
        return self.head(states)


_MAMBA: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "state_size": 8,
    "use_cache": False,
}
_MAMBA2: dict[str, Any] = _MAMBA | {"head_dim": 16, "num_heads": 8, "n_groups": 1, "chunk_size": 8}
_KEYS: dict[str, Any] = {"num_key_value_heads": 2, "max_position_embeddings": 64}
ARCHITECTURES: dict[str, Callable[[], Example]] = {
    "bert": lambda: _encoder("Bert"),
    "roberta": lambda: _encoder("Roberta"),
    "electra": lambda: _encoder("Electra", embedding_size=64),
    "distilbert": lambda: _encoder("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "albert": lambda: _encoder("Albert", embedding_size=32),
    "deberta": lambda: _encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "gpt2": lambda: _decoder("GPT2", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "opt": lambda: _decoder("OPT", ffn_dim=128, word_embed_proj_dim=64, max_position_embeddings=64),
    "bloom": lambda: _decoder("Bloom", n_layer=2, n_head=4),
    "llama": lambda: _decoder("Llama", **_KEYS),
    "llama_outliers": _outliers,
    "qwen2": lambda: _decoder("Qwen2", **_KEYS),
    "qwen3": lambda: _decoder("Qwen3", head_dim=16, **_KEYS),
    "qwen3_moe": lambda: _decoder("Qwen3Moe", head_dim=16, moe_intermediate_size=64, num_experts=4,
                                  num_experts_per_tok=2, experts_implementation="batched_mm", **_KEYS),
    "gemma2": lambda: _decoder("Gemma2", head_dim=16, **_KEYS),
    "phi": lambda: _decoder("Phi", max_position_embeddings=64),
    "mamba": lambda: _decoder("Mamba", **_MAMBA),
    "mamba2": lambda: _decoder("Mamba2", **_MAMBA2),
    "t5": _t5,
    "whisper": _whisper,
    "wav2vec2": _wav2vec2,
    "wav2vec2_samples": lambda: (Samples(), {"samples": torch.randn(1, 4000) * 3000}),
    "vit": lambda: _picture("ViT", **_IMAGE, patch_size=16),
    "dinov2": lambda: _picture("Dinov2", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64),
    "swin": lambda: _picture("Swin", attn_implementation="eager", image_size=64, patch_size=4, embed_dim=32,
                             depths=[2, 2], num_heads=[2, 4],
                             window_size=4),
    "segformer": lambda: _picture("Segformer", hidden_sizes=[16, 32], depths=[1, 1], num_encoder_blocks=2),
    "convnext": lambda: _picture("ConvNext", hidden_sizes=[16, 32], depths=[2, 2], num_stages=2),
    "clip": _clip,
    "detr": _detr,
    "resnet": lambda: _picture("ResNet", embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic"),
    "mobilenet_v2": lambda: _picture("MobileNetV2", depth_multiplier=0.35, image_size=64),
    "efficientnet": lambda: _picture("EfficientNet", image_size=64, width_coefficient=0.5,
                                     depth_coefficient=0.3, hidden_dim=640),
    "yolo": lambda: (Detector(), {"images": torch.rand(1, 3, 64, 64)}),
    "unet": lambda: (UNet(), {"sample": torch.randn(1, 4, 32, 32), "timestep": torch.tensor([10])}),
    "sd3": lambda: (JointTransformer(), {"latent": torch.randn(1, 16, 16, 16), "text": torch.randn(1, 12, 96),
                                         "timestep": torch.tensor([500])}),
    "lstm": lambda: (Recurrent(), {"tokens": torch.randint(0, 1000, (2, 12))}),
    "forecast": lambda: (Forecast(), {"series": torch.randn(2, 24, 3) * 20 + 100}),
    "steps": lambda: (Steps(), {"sequence": torch.randn(6, 2, 64), "start": torch.zeros(2, 64)}),
    "experts": lambda: (nn.Sequential(Experts(), Experts()), {"input": torch.randn(2, 8, 64)}),
}  # fmt: skip


def _with_boxes_chosen(path: Path) -> onnx.ModelProto:
    """The detector with NonMaxSuppression behind it, and a Loop that collects the chosen boxes."""
    model = onnx.load(path)
    boxes, scores = (output.name for output in model.graph.output)
    text = f"""<ir_version: 10, opset_import: ["" : 18]>
    chosen (float[1,4,N] {boxes}, float[1,8,N] {scores}) => (float[K,4] picked)
    <int64[1] most = {{5}}, float[1] overlap = {{0.5}}, float[1] least = {{0.1}}, int64[1] place = {{2}},
     int64 one = {{1}}, int64[1] column = {{2}}> {{
        rows = Transpose <perm = [0, 2, 1]> ({boxes})
        indices = NonMaxSuppression (rows, {scores}, most, overlap, least)
        numbers = Gather <axis = 1> (indices, column)
        count = Shape <start = 0, end = 1> (indices)
        turns = Squeeze (count)
        yes = Constant <value = bool {{1}}> ()
        picked = Loop (turns, yes) <body = step (int64 i, bool go) => (bool on, float[4] box) {{
            on = Identity (go)
            number = Gather <axis = 0> (numbers, i)
            found = Gather <axis = 1> (rows, number)
            zero = Constant <value_ints = [0, 1]> ()
            box = Squeeze (found, zero)
        }}>
    }}"""
    end = onnx.parser.parse_model(text)
    end.ir_version, end.opset_import[0].version = model.ir_version, model.opset_import[0].version
    return onnx.compose.merge_models(model, end, [(boxes, boxes), (scores, scores)])


def _of_four_bits(path: Path, *, as_products: bool) -> onnx.ModelProto:
    """The model with weights of four bits: MatMulNBits of ONNX Runtime, or DequantizeLinear of blocks."""
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    form = QuantFormat.QOperator if as_products else QuantFormat.QDQ
    quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True, quant_format=form)
    quantizer.process()
    return cast(Any, quantizer.model).model


DERIVED: dict[str, tuple[str, Callable[[Path], onnx.ModelProto]]] = {
    "detector": ("yolo", _with_boxes_chosen),
    "qwen3_products": ("qwen3", lambda path: _of_four_bits(path, as_products=True)),
    "qwen3_blocks": ("qwen3", lambda path: _of_four_bits(path, as_products=False)),
}
"""Models made of the export of another."""


def export(name: str, folder: Path) -> None:
    """Write FOLDER/NAME.onnx, with its weights inside."""
    torch.manual_seed(20)
    if name in DERIVED:
        source, derive = DERIVED[name]
        onnx.save(derive(folder / f"{source}.onnx"), folder / f"{name}.onnx")
        return
    model, inputs = ARCHITECTURES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model.eval(), (), kwargs=inputs, dynamo=True, verbose=False)
    program.save(folder / f"{name}.onnx")


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or (*ARCHITECTURES, *DERIVED):
        try:
            export(name, folder)
        except Exception as error:  # another library's; the others are still of use
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            print(f"{name}: {(folder / f'{name}.onnx').stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
