"""Tiny diffusers pipelines with random weights, saved as those of the hub are."""

import pytest

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VAE = {
    "sample_size": 16,
    "block_out_channels": (8, 8),
    "norm_num_groups": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
UNET = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "cross_attention_dim": 8,
    "attention_head_dim": 4,
}
LAYERS = {"intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}


def _clip(projected=False, hidden=8):
    """A CLIP text encoder whose tokenizer cuts after 12 tokens, and knows each letter."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

    tokens = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = CLIPTokenizer(vocabulary, [], model_max_length=12)
    sizes = {**LAYERS, "hidden_size": hidden, "projection_dim": 8, "vocab_size": len(tokens), **ends}
    config = CLIPTextConfig(**sizes, max_position_embeddings=12)
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config), tokenizer


def _t5(hidden):
    """A T5 encoder whose tokenizer knows each letter."""
    from transformers import T5Config, T5EncoderModel, T5Tokenizer

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -9.0), ("▁", -2.0), *((one, -3.0) for one in LETTERS)]
    tokenizer = T5Tokenizer(pieces, extra_ids=0, model_max_length=64)
    config = T5Config(
        vocab_size=len(pieces), d_model=hidden, d_kv=4, d_ff=16, num_layers=1, num_heads=2, pad_token_id=0
    )
    return T5EncoderModel(config), tokenizer


def _stable_diffusion(diffusers):
    """With a safety checker, as in version 1.5; it blocks nothing, as its concepts are out of reach."""
    import transformers
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker

    text, tokenizer = _clip()
    vision = {**LAYERS, "hidden_size": 8, "image_size": 8, "patch_size": 4}
    config = transformers.CLIPConfig(
        text_config=text.config.to_dict(), vision_config=vision, projection_dim=8
    )
    checker = StableDiffusionSafetyChecker(config)
    return diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL(**VAE, latent_channels=4),
        text_encoder=text,
        tokenizer=tokenizer,
        unet=diffusers.UNet2DConditionModel(**UNET),
        scheduler=diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        safety_checker=checker,
        feature_extractor=transformers.CLIPImageProcessor(size=8, crop_size=8),
    )


def _turbo(diffusers):
    (first, tokenizer), (second, tokenizer_2) = _clip(), _clip(projected=True)
    unet = {
        **UNET,
        "cross_attention_dim": 16,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 6 * 4 + 8,
        "transformer_layers_per_block": (1, 1),
        "use_linear_projection": True,
    }
    return diffusers.StableDiffusionXLPipeline(
        vae=diffusers.AutoencoderKL(**VAE, latent_channels=4),
        text_encoder=first,
        tokenizer=tokenizer,
        text_encoder_2=second,
        tokenizer_2=tokenizer_2,
        unet=diffusers.UNet2DConditionModel(**unet),
        scheduler=diffusers.EulerAncestralDiscreteScheduler(timestep_spacing="trailing"),
    )


def _stable_diffusion_3(diffusers):
    (first, tokenizer), (second, tokenizer_2) = _clip(projected=True), _clip(projected=True)
    third, tokenizer_3 = _t5(16)
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=1,
        attention_head_dim=4,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=8,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=16,
    )
    return diffusers.StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=diffusers.AutoencoderKL(
            **VAE, latent_channels=4, shift_factor=0.06, use_quant_conv=False, use_post_quant_conv=False
        ),
        text_encoder=first,
        tokenizer=tokenizer,
        text_encoder_2=second,
        tokenizer_2=tokenizer_2,
        text_encoder_3=third,
        tokenizer_3=tokenizer_3,
    )


def _flux(diffusers):
    (first, tokenizer), (second, tokenizer_2) = _clip(), _t5(16)
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=8,
        axes_dims_rope=(2, 2, 4),
        guidance_embeds=False,
    )
    return diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=diffusers.AutoencoderKL(
            **VAE,
            latent_channels=1,
            scaling_factor=0.36,
            shift_factor=0.11,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=first,
        tokenizer=tokenizer,
        text_encoder_2=second,
        tokenizer_2=tokenizer_2,
        transformer=transformer,
    )


KINDS = {
    "StableDiffusionPipeline": _stable_diffusion,
    "StableDiffusionXLPipeline": _turbo,
    "StableDiffusion3Pipeline": _stable_diffusion_3,
    "FluxPipeline": _flux,
}


@pytest.fixture(scope="session")
def pipeline_folder(tmp_path_factory):
    """The folder of a tiny pipeline by the name of its class; each is made once. Not to be written to."""
    diffusers = pytest.importorskip("diffusers", reason="no diffusers: pip install '.[generate]'")
    import torch

    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("pipelines") / kind
            torch.manual_seed(0)
            KINDS[kind](diffusers).save_pretrained(made[kind])
        return made[kind]

    return folder
