"""Networks of qai-hub-models that are rebuilt with random weights for the fit of milliseconds.

Each has the name of its folder in the wheel, its architecture and its input size. ``fit_times.py`` says how
rows are made of them, and leaves out a network whose parameters differ from the wheel's own number.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock, patch

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


def _card(image: Any) -> Any:
    """Normalize an image as torchvision does."""
    import torch

    shape = (1, 3, *[1] * (image.dim() - 2))
    return (image - torch.tensor(_MEAN).reshape(shape)) / torch.tensor(_DEVIATION).reshape(shape)


def _halves(image: Any) -> Any:
    """Normalize an image to -1 to 1."""
    return image * 2 - 1


def _swapped(image: Any) -> Any:
    """Exchange red and blue."""
    return image.flip(1)


def _normalized(
    network: Any, shift: Callable[[Any], Any] | None = _card, pick: Callable[[Any], Any] | None = None
) -> Any:
    """Wrap a network of images as the wheel does: normalization and choice of the result inside."""
    import torch

    class Normalized(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, image: Any) -> Any:
            result = self.network(shift(image) if shift else image)
            return pick(result) if pick else result

    return Normalized()


def _torchvision(builder: str, size: int = 224, shift: Any = _card, **arguments: Any) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import torchvision

        return _image(getattr(torchvision.models, builder)(weights=None, **arguments), size, shift=shift)

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
        result = _normalized(network, pick=lambda scores: torch.softmax(scores, 1))
        return result, (torch.rand(1, 3, 16, 112, 112),)

    return make


def _timm(builder: str, size: int = 224, shift: Any = _card, **arguments: Any) -> Build:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import timm

        return _image(timm.create_model(builder, pretrained=False, **arguments), size, shift=shift)

    return make


def _pictures(
    family: str,
    size: int,
    *,
    config: dict[str, Any] | None = None,
    kind: str = "ImageClassification",
    shift: Any = _card,
) -> Build:
    """Build a network of transformers that reads an image."""

    def make() -> tuple[Any, tuple[Any, ...]]:
        import transformers

        settings = getattr(transformers, f"{family}Config")(**{"num_labels": 1000} | (config or {}))
        network = getattr(transformers, f"{family}For{kind}")(settings)
        return _image(network, size, shift=shift, pick=lambda result: result.logits)

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


def _wheel(network: str, kind: str, yaml: str | None = None) -> Build:
    """Build a network by its class in the wheel, which must be installed, without reading weights.

    A network of ultralytics is built from one of its ``yaml`` files.
    """

    def make() -> tuple[Any, tuple[Any, ...]]:
        import torch

        module = importlib.import_module(f"qai_hub_models.models.{network}.model")
        assets = importlib.import_module("qai_hub_models.utils.asset_loaders")
        patches = [
            patch.object(torch.nn.Module, "load_state_dict"),
            patch.object(torch, "load", MagicMock()),
            patch("torchvision.models._api.WeightsEnum.get_state_dict", MagicMock()),
            patch.object(assets.CachedWebModelAsset, "fetch", return_value="weights.pth"),
        ]
        if hasattr(module, "load_torch"):
            patches.append(patch.object(module, "load_torch", MagicMock()))
        if yaml is not None:
            import ultralytics

            network_of = MagicMock(return_value=ultralytics.YOLO(yaml))
            patches.append(patch.object(module, "ultralytics_YOLO", network_of))
        with contextlib.ExitStack() as stack:
            for entry in patches:
                stack.enter_context(entry)
            built = getattr(module, kind).from_pretrained()
        return built, tuple(torch.rand(spec[0]) for spec in built.get_input_spec().values())

    return make


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
            return torch.clamp(image - self.layers(image), 0, 1)

    return Denoiser(), (torch.rand(1, 1, 256, 256),)


def _join(combine: Callable[..., Any], *parts: Any) -> Any:
    """Return a module that gives its input to each part and combines the results; None passes it on."""
    import torch

    class Join(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(part or torch.nn.Identity() for part in parts)

        def forward(self, value: Any) -> Any:
            return combine(*(part(value) for part in self.parts))

    return Join()


def _enlarger(make: Callable[[], Any]) -> Build:
    """Build a network that enlarges an image of 128 x 128 pixels by 4."""

    def build_image() -> tuple[Any, tuple[Any, ...]]:
        import torch

        return make(), (torch.rand(1, 3, 128, 128),)

    return build_image


def _same(inner: int, outer: int, size: int = 3, **options: Any) -> Any:
    import torch

    return torch.nn.Conv2d(inner, outer, size, padding=size // 2, **options)


def _quicksrnet(channels: int, layers: int, residual: bool = False) -> Any:
    import torch
    from torch.nn import Hardtanh, PixelShuffle

    inner = [part for _ in range(layers) for part in (_same(channels, channels), Hardtanh(0, 1))]
    main = _chain(_same(3, channels), Hardtanh(0, 1), *inner, _same(channels, 48))
    body = _join(torch.add, _same(3, 48, 1, bias=False), main) if residual else main
    return _chain(body, Hardtanh(0, 1), PixelShuffle(4))


def _sesr() -> Any:
    """Build SESR-M5 as it is trained: each convolution is two."""
    import torch
    from torch.nn import PixelShuffle, ReLU

    def linear(inner: int, outer: int, size: int) -> Any:
        return _chain(_same(inner, 256, size, bias=False), _same(256, outer, 1))

    blocks = [_chain(_join(torch.add, None, linear(16, 16, 3)), ReLU()) for _ in range(5)]
    main = _chain(linear(3, 16, 5), ReLU(), _join(torch.add, _chain(*blocks), None), linear(16, 48, 5))
    return _chain(_join(torch.add, main, _same(3, 48, 1, bias=False)), PixelShuffle(4))


def _xlsr() -> Any:
    import torch
    from torch.nn import Hardtanh, PixelShuffle, ReLU

    blocks = [part for _ in range(3) for part in (_same(32, 32, groups=4), ReLU(), _same(32, 32, 1))]
    main = _chain(_same(3, 32), ReLU(), _same(32, 32, 1), *blocks)
    body = _join(lambda first, second: torch.cat((first, second), 1), main, _same(3, 16))
    return _chain(body, _same(48, 32, 1), ReLU(), _same(32, 48), PixelShuffle(4), Hardtanh(0, 1))


def _srgan() -> Any:
    import torch
    from torch.nn import BatchNorm2d, Hardtanh, PixelShuffle, PReLU

    def block() -> Any:
        main = (_same(64, 64, bias=False), BatchNorm2d(64), PReLU())
        return _join(torch.add, None, _chain(*main, _same(64, 64, bias=False), BatchNorm2d(64)))

    body = _chain(*(block() for _ in range(16)), _same(64, 64, bias=False), BatchNorm2d(64))
    twice = [part for _ in range(2) for part in (_same(64, 256), PixelShuffle(2), PReLU())]
    head = (_same(3, 64, 9), PReLU(), _join(torch.add, None, body))
    return _chain(*head, *twice, _same(64, 3, 9), Hardtanh(0, 1))


def _real_esrgan() -> Any:
    import torch
    from torch.nn import PixelShuffle, PReLU, Upsample

    inner = [part for _ in range(32) for part in (_same(64, 64), PReLU(64))]
    main = _chain(_same(3, 64), PReLU(64), *inner, _same(64, 48), PixelShuffle(4))
    return _join(torch.add, main, Upsample(scale_factor=4, mode="nearest"))


def _mobile(channels: int, steps: str) -> list[Any]:
    """Return the layers of MobileNet: the strides by layer; a capital doubles the channels."""
    from torch.nn import BatchNorm2d, Conv2d, ReLU

    def layer(inner: int, outer: int, stride: int, size: int = 3, groups: int = 1) -> list[Any]:
        window = {"stride": stride, "padding": size // 2, "groups": groups, "bias": False}
        return [Conv2d(inner, outer, size, **window), BatchNorm2d(outer), ReLU()]

    layers, inner = layer(channels, 32, 2), 32
    for step in steps:
        outer = 2 * inner if step in "AB" else inner
        layers += [*layer(inner, inner, 2 if step == "B" else 1, 3, inner), *layer(inner, outer, 1, 1)]
        inner = outer
    return layers


def _sounds() -> tuple[Any, tuple[Any, ...]]:
    """Build YAMNet."""
    import torch
    from torch.nn import AdaptiveAvgPool2d, Flatten, Linear, Sigmoid

    head = (AdaptiveAvgPool2d(1), Flatten(), Linear(1024, 521), Sigmoid())
    return _chain(*_mobile(1, "AB1B1B11111B1"), *head), (torch.rand(1, 1, 96, 64),)


def _poses() -> tuple[Any, tuple[Any, ...]]:
    """Build PoseNet, whose places are the highest of their neighbours."""
    import torch

    class Poses(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = _chain(*_mobile(3, "AB1B1B11111A1"))
            self.heads = torch.nn.ModuleList(_same(1024, outer, 1) for outer in (17, 34, 32, 32))

        def forward(self, image: Any) -> Any:
            values = self.body(_halves(image))
            heat, *moves = (head(values) for head in self.heads)
            heat = heat.sigmoid()
            return heat, *moves, torch.nn.functional.max_pool2d(heat, 3, 1, 1)

    return Poses(), (torch.rand(1, 3, 513, 257),)


def _sentences() -> tuple[Any, tuple[Any, ...]]:
    """Build MiniLM with the mean of its tokens, normalized."""
    import torch
    import transformers

    settings = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )

    class Sentences(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = transformers.BertModel(settings)

        def forward(self, tokens: Any, mask: Any) -> Any:
            values = self.network(input_ids=tokens, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).float()
            mean = (values * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
            return torch.nn.functional.normalize(mean, p=2, dim=1)

    tokens = torch.randint(0, settings.vocab_size, (1, 128), dtype=torch.int32)
    return Sentences(), (tokens, torch.ones(1, 128, dtype=torch.int32))


def _detector(backbone: str, size: int = 480) -> Build:
    """Build DETR, whose boxes have corners and whose classes are chosen inside."""

    def make() -> tuple[Any, tuple[Any, ...]]:
        import torch
        import transformers

        settings = transformers.DetrConfig(
            use_timm_backbone=True, backbone=backbone, use_pretrained_backbone=False, num_labels=91
        )

        def boxes(result: Any) -> Any:
            scores, labels = result.logits.softmax(-1)[..., :-1].max(-1)
            center, extent = result.pred_boxes.split(2, -1)
            corners = torch.cat((center - extent / 2, center + extent / 2), -1) * size
            return corners, scores, labels.int()

        return _image(transformers.DetrForObjectDetection(settings), size, pick=boxes)

    return make


def _names() -> Iterator[tuple[str, Build]]:
    for name, builder in {
        "squeezenet1_1": "squeezenet1_1",
        "shufflenet_v2": "shufflenet_v2_x0_5",
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
    }.items():
        yield name, _torchvision(builder)
    yield "googlenet", _torchvision("googlenet", shift=_halves, aux_logits=False, init_weights=False)
    yield "inception_v3", _torchvision("inception_v3", 299, _halves, aux_logits=False, init_weights=False)
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
    yield "efficientvit_b2_cls", _timm("efficientvit_b2")
    yield "efficientvit_l2_cls", _timm("efficientvit_l2", 384)
    yield "inception_v4", _timm("inception_v4", 299, _halves)
    yield "nasnet", _timm("nasnetalarge", 331, _halves)
    yield "repvit", _timm("repvit_m2_3", distillation=False)
    yield "sequencer2d", _timm("sequencer2d_s")
    yield "mobilenet_v4", _timm("mobilenetv4_conv_medium")
    yield "levit", _pictures("Levit", 224, config={"depths": [2, 3, 4], "hidden_sizes": [128, 256, 384]})
    yield "mobile_vit", _pictures("MobileViT", 256, shift=_swapped)
    yield (
        "beit",
        _pictures(
            "Beit",
            224,
            config={"use_relative_position_bias": True, "use_shared_relative_position_bias": False},
            shift=None,
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

    yield "quicksrnetsmall", _enlarger(lambda: _quicksrnet(32, 2))
    yield "quicksrnetmedium", _enlarger(lambda: _quicksrnet(32, 5))
    yield "quicksrnetlarge", _enlarger(lambda: _quicksrnet(64, 11, residual=True))
    yield "sesr_m5", _enlarger(_sesr)
    yield "xlsr", _enlarger(_xlsr)
    yield "srgan", _enlarger(_srgan)
    yield "real_esrgan_general_x4v3", _enlarger(_real_esrgan)
    yield "minilm_v2", _sentences
    yield "yamnet", _sounds
    yield "posenet_mobilenet", _poses
    yield "detr_resnet50", _detector("resnet50")
    yield "detr_resnet101", _detector("resnet101")
    yield "swin_tiny", _wheel("swin_tiny", "SwinTiny")
    yield "swin_small", _wheel("swin_small", "SwinSmall")
    yield "swin_base", _wheel("swin_base", "SwinBase")
    yield "swinv2_base", _wheel("swinv2_base", "SwinV2Base")
    yield "face_det_lite", _wheel("face_det_lite", "FaceDetLite")
    yield "gear_guard_net", _wheel("gear_guard_net", "GearGuardNet")
    yield "facemap_3dmm", _wheel("facemap_3dmm", "FaceMap_3DMM")
    yield "yolov8_det", _wheel("yolov8_det", "YoloV8Detector", "yolov8n.yaml")
    yield "yolov8_seg", _wheel("yolov8_seg", "YoloV8Segmentor", "yolov8n-seg.yaml")
    yield "yolov8_obb", _wheel("yolov8_obb", "YoloV8OBB", "yolov8n-obb.yaml")
    yield "yolov10_det", _wheel("yolov10_det", "YoloV10Detector", "yolov10n.yaml")
    yield "yolov11_det", _wheel("yolov11_det", "YoloV11Detector", "yolo11n.yaml")
    yield "yolov11_pose", _wheel("yolov11_pose", "YoloV11PoseDetector", "yolo11n-pose.yaml")
    yield "yolov11_seg", _wheel("yolov11_seg", "YoloV11Segmentor", "yolo11n-seg.yaml")
    yield "yolo26_det", _wheel("yolo26_det", "Yolo26Detector", "yolo26n.yaml")
    yield "yolo26_pose", _wheel("yolo26_pose", "Yolo26PoseDetector", "yolo26n-pose.yaml")
    yield "yolo26_seg", _wheel("yolo26_seg", "Yolo26Segmentor", "yolo26n-seg.yaml")


NETWORKS.update(_names())
