"""Networks of qai-hub-models that are rebuilt with random weights for the fit of milliseconds.

Each has the name of its folder in the wheel, its architecture and its input size. ``fit_times.py`` says how
rows are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Build = Callable[[], tuple[Any, tuple[Any, ...]]]
NETWORKS: dict[str, Build] = {}

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def build(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a network, ready for inference, and its example inputs; the same weights each time."""
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # its operator has no ONNX form
    torch.manual_seed(0)
    network, inputs = NETWORKS[name]()
    network.eval()
    # The vendor's compiler removes zeros and ones, which trained weights do not have.
    for label, weights in network.named_parameters():
        if weights.dim() <= 1:
            torch.nn.init.normal_(weights, mean=0.0 if "bias" in label else 1.0, std=0.1)
    for label, numbers in network.named_buffers():
        if "running_mean" in label:
            torch.nn.init.normal_(numbers, std=0.1)
        elif "running_var" in label:
            torch.nn.init.uniform_(numbers, 0.8, 1.2)
    return network, inputs


def _image(
    network: Any, height: int, width: int | None = None, **options: Any
) -> tuple[Any, tuple[Any, ...]]:
    import torch

    return _normalized(network, **options), (torch.rand(1, 3, height, width or height),)


def _normalized(network: Any, shift: bool = True, pick: Callable[[Any], Any] | None = None) -> Any:
    """Wrap a network of images as the wheel does: normalization inside, one output."""
    import torch

    class Normalized(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.mean = torch.nn.Buffer(torch.tensor(_MEAN).reshape(1, 3, 1, 1))
            self.deviation = torch.nn.Buffer(torch.tensor(_DEVIATION).reshape(1, 3, 1, 1))

        def forward(self, image: Any) -> Any:
            if shift:
                image = (image - self.mean) / self.deviation
            result = self.network(image)
            return pick(result) if pick else result

    return Normalized()


def _torchvision(builder: str, size: int = 224, **arguments: Any) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import torchvision

        return _image(getattr(torchvision.models, builder)(weights=None, **arguments), size)

    return make


def _segmentation(builder: str, size: int) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import torchvision

        network = getattr(torchvision.models.segmentation, builder)(weights=None, weights_backbone=None)
        return _image(network, size, pick=lambda result: result["out"].argmax(1).byte())

    return make


def _video(builder: str) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import torch
        import torchvision

        network = getattr(torchvision.models.video, builder)(weights=None)
        return network, (torch.rand(1, 3, 16, 112, 112),)

    return make


def _timm(builder: str, size: int = 224, **arguments: Any) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import timm

        return _image(timm.create_model(builder, pretrained=False, **arguments), size)

    return make


def _pictures(
    family: str, size: int, *, config: dict[str, Any] | None = None, kind: str = "ImageClassification"
) -> Build:
    """Build a network of transformers that reads an image."""

    def make() -> tuple[Any, tuple[Any, ...]]:
        import transformers

        settings = getattr(transformers, f"{family}Config")(**config or {})
        network = getattr(transformers, f"{family}For{kind}")(settings)
        return _image(network, size, pick=lambda result: result.logits)

    return make


def _texts(family: str, *, length: int = 384, **config: Any) -> Build:
    """Build a network of transformers that fills the masked word of a text."""

    def make() -> tuple[Any, tuple[Any, ...]]:
        import torch
        import transformers

        settings = getattr(transformers, f"{family}Config")(**config)
        kind = "PreTraining" if family == "Electra" else "MaskedLM"

        class Masked(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.network = getattr(transformers, f"{family}For{kind}")(settings)

            def forward(self, tokens: Any, mask: Any) -> Any:
                return self.network(tokens, attention_mask=mask).logits

        tokens = torch.randint(0, settings.vocab_size, (1, length), dtype=torch.int32)
        return Masked(), (tokens, torch.ones(1, length, dtype=torch.int32))

    return make


def _depth() -> tuple[Any, tuple[Any, ...]]:
    import transformers

    backbone = transformers.Dinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14,
        out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True,
    )  # fmt: skip
    settings = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=64, head_in_index=-1, head_hidden_size=32,
    )  # fmt: skip
    network = transformers.DepthAnythingForDepthEstimation(settings)
    return _image(network, 518, pick=lambda result: result.predicted_depth)


def _chain(*layers: Any) -> Any:
    import torch

    return torch.nn.Sequential(*layers)


def _denoiser() -> tuple[Any, tuple[Any, ...]]:
    """Build DnCNN: 17 layers of 64 channels, the noise subtracted."""
    import torch
    from torch.nn import BatchNorm2d, Conv2d, ReLU

    class Denoiser(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            inner = [
                part for _ in range(15) for part in (Conv2d(64, 64, 3, padding=1), BatchNorm2d(64), ReLU())
            ]
            self.layers = _chain(Conv2d(1, 64, 3, padding=1), ReLU(), *inner, Conv2d(64, 1, 3, padding=1))

        def forward(self, image: Any) -> Any:
            return image - self.layers(image)

    return Denoiser(), (torch.rand(1, 1, 256, 256),)


def _names() -> Iterator[tuple[str, Build]]:
    for name, builder in {
        "squeezenet1_1": "squeezenet1_1",
        "shufflenet_v2": "shufflenet_v2_x1_0",
        "mnasnet05": "mnasnet0_5",
        "mobilenet_v2": "mobilenet_v2",
        "mobilenet_v3_small": "mobilenet_v3_small",
        "mobilenet_v3_large": "mobilenet_v3_large",
        "efficientnet_b0": "efficientnet_b0",
        "regnet_y_800mf": "regnet_y_800mf",
        "resnet18": "resnet18",
        "regnet": "regnet_x_3_2gf",
        "resnet50": "resnet50",
        "densenet121": "densenet121",
        "resnext50": "resnext50_32x4d",
        "resnet101": "resnet101",
        "wideresnet50": "wide_resnet50_2",
        "convnext_tiny": "convnext_tiny",
        "resnext101": "resnext101_32x8d",
        "convnext_base": "convnext_base",
        "vit": "vit_b_16",
        "swin_tiny": "swin_t",
        "swin_small": "swin_s",
        "swin_base": "swin_b",
        "swinv2_base": "swin_v2_b",
    }.items():
        yield name, _torchvision(builder)
    yield "googlenet", _torchvision("googlenet", aux_logits=False, init_weights=False)
    yield "inception_v3", _torchvision("inception_v3", 299, aux_logits=False, init_weights=False)
    yield "efficientnet_b4", _torchvision("efficientnet_b4", 380)
    yield "efficientnet_v2_s", _torchvision("efficientnet_v2_s", 384)
    yield "fcn_resnet50", _segmentation("fcn_resnet50", 520)
    for name, builder in {
        "resnet_3d": "r3d_18",
        "resnet_mixed": "mc3_18",
        "resnet_2plus1d": "r2plus1d_18",
    }.items():
        yield name, _video(builder)
    yield "dla102x", _timm("dla102x")
    yield "efficientformer", _timm("efficientformer_l1")
    yield "efficientnet_lite4", _timm("efficientnet_lite4", 300)
    yield "efficientvit_b2_cls", _timm("efficientvit_b2", 288)
    yield "efficientvit_l2_cls", _timm("efficientvit_l2", 384)
    yield "inception_v4", _timm("inception_v4", 299)
    yield "nasnet", _timm("nasnetalarge", 331)
    yield "repvit", _timm("repvit_m2_3")
    yield "sequencer2d", _timm("sequencer2d_s")
    yield "mobilenet_v4", _timm("mobilenetv4_conv_medium")
    yield "levit", _pictures("Levit", 224)
    yield "mobile_vit", _pictures("MobileViT", 256)
    yield (
        "beit",
        _pictures(
            "Beit",
            224,
            config={"use_relative_position_bias": True, "use_shared_relative_position_bias": False},
        ),
    )
    yield (
        "convnext_v2_base",
        _pictures("ConvNextV2", 224, config={"depths": [3, 3, 27, 3], "hidden_sizes": [128, 256, 512, 1024]}),
    )
    yield (
        "segformer_base",
        _pictures("Segformer", 512, config={"num_labels": 150}, kind="SemanticSegmentation"),
    )
    yield "depth_anything_v2", _depth
    yield "dncnn", _denoiser
    yield "bert_base_uncased_hf", _texts("Bert")
    yield "distil_bert_base_uncased_hf", _texts("DistilBert")
    yield (
        "electra_bert_base_discrim_google",
        _texts(
            "Electra", hidden_size=768, embedding_size=768, num_attention_heads=12, intermediate_size=3072
        ),
    )
    yield (
        "albert_base_v2_hf",
        _texts("Albert", hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    )
    yield "mobile_bert_uncased_google", _texts("MobileBert")


NETWORKS.update(_names())
