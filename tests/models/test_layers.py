import torch
from torch import nn

from fashioniq.models.layers import Attention, Decoder, Encoder, small_embedding


def seeded(make):
    torch.manual_seed(0)
    return make().eval()


def padded_memory():
    mask_BL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return torch.randn(2, 5, 16), mask_BL


def test_attention_is_torchs_own_multi_head_attention():
    own = seeded(lambda: Attention(16, 4, 0.0))
    torchs = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    torchs.in_proj_weight.data = torch.cat([own.query.weight, own.key_value.weight])
    torchs.in_proj_bias.data = torch.cat([own.query.bias, own.key_value.bias])
    torchs.out_proj.load_state_dict(own.out.state_dict())
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 3, 16), padded_memory()
    expected_BLD, _ = torchs(x_BLD, memory_BLD, memory_BLD, key_padding_mask=~mask_BL)
    torch.testing.assert_close(own(x_BLD, own.keys_values(memory_BLD), mask_BL), expected_BLD)


def test_an_encoder_does_not_see_padding():
    encoder = seeded(lambda: Encoder(16, 4, 32, 2, 0.1))
    x_BLD, mask_BL = padded_memory()
    other_BLD = torch.where(mask_BL.unsqueeze(-1), x_BLD, 100.0)
    torch.testing.assert_close(encoder(x_BLD, mask_BL)[mask_BL], encoder(other_BLD, mask_BL)[mask_BL])
    torch.testing.assert_close(encoder(x_BLD, mask_BL)[1, :3], encoder(x_BLD[1:, :3], None)[0], atol=1e-5, rtol=1e-5)


def test_a_decoder_with_its_cache_is_the_decoder_over_all_words():
    decoder = seeded(lambda: Decoder(16, 4, 32, 3, 0.1))
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 6, 16), padded_memory()
    at_once_BLD, _ = decoder(x_BLD, decoder.start(memory_BLD, mask_BL))
    state, one_by_one = decoder.start(memory_BLD, mask_BL), []
    for place in range(6):
        y_BLD, state = decoder(x_BLD[:, place : place + 1], state)
        one_by_one.append(y_BLD)
    torch.testing.assert_close(torch.cat(one_by_one, 1), at_once_BLD, atol=1e-5, rtol=1e-5)


def test_a_word_does_not_see_those_after_it():
    decoder = seeded(lambda: Decoder(16, 4, 32, 2, 0.0))
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 6, 16), padded_memory()
    changed_BLD = x_BLD.clone()
    changed_BLD[:, 4:] = 7.0
    outputs = [decoder(words_BLD, decoder.start(memory_BLD, mask_BL))[0] for words_BLD in (x_BLD, changed_BLD)]
    torch.testing.assert_close(outputs[0][:, :4], outputs[1][:, :4])
    assert not torch.allclose(outputs[0][:, 4:], outputs[1][:, 4:])


def test_selected_rows_of_a_state_go_on_as_those_rows():
    decoder = seeded(lambda: Decoder(16, 4, 32, 2, 0.0))
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 2, 16), padded_memory()
    _, state = decoder(x_BLD[:, :1], decoder.start(memory_BLD, mask_BL))
    expected_BLD, _ = decoder(x_BLD[:, 1:], state)
    rows = torch.tensor([1, 0, 1])
    torch.testing.assert_close(decoder(x_BLD[rows, 1:], state.select(rows))[0], expected_BLD[rows])


def test_dropout_is_of_training_only():
    encoder = seeded(lambda: Encoder(16, 4, 32, 2, 0.5))
    x_BLD = torch.randn(1, 3, 16)
    assert torch.equal(encoder(x_BLD, None), encoder(x_BLD, None))
    encoder.train()
    assert not torch.allclose(encoder(x_BLD, None), encoder(x_BLD, None))


def test_the_padding_of_an_embedding_is_zero():
    embedding = small_embedding(10, 4, padding=0)
    assert not embedding.weight[0].any() and embedding.weight[1:].any(1).all()
