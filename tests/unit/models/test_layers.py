import torch
from torch import nn

from fashioniq.models.layers import Attention, BeamSlots, Decoder, TransformerLayers, small_embedding


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
    torch.testing.assert_close(own(x_BLD, own.key_value(memory_BLD), mask_BL), expected_BLD)


def test_an_encoder_does_not_see_padding():
    encoder = seeded(lambda: TransformerLayers(16, 4, 32, 2, 0.1))
    x_BLD, mask_BL = padded_memory()
    other_BLD = torch.where(mask_BL.unsqueeze(-1), x_BLD, 100.0)
    torch.testing.assert_close(encoder(x_BLD, mask_BL)[mask_BL], encoder(other_BLD, mask_BL)[mask_BL])
    torch.testing.assert_close(
        encoder(x_BLD, mask_BL)[1, :3], encoder(x_BLD[1:, :3], None)[0], atol=1e-5, rtol=1e-5
    )


def test_a_decoder_with_its_cache_is_the_decoder_over_all_words():
    decoder = seeded(lambda: Decoder(16, 4, 32, 3, 0.1))
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 6, 16), padded_memory()
    at_once_BLD = decoder(x_BLD, decoder.start(memory_BLD, mask_BL))
    state, one_by_one = decoder.start(memory_BLD, mask_BL), []
    for place in range(6):
        y_BD, state = decoder.step(x_BLD[:, place], state)
        one_by_one.append(y_BD)
    torch.testing.assert_close(torch.stack(one_by_one, 1), at_once_BLD, atol=1e-5, rtol=1e-5)


def test_a_word_does_not_see_those_after_it():
    decoder = seeded(lambda: Decoder(16, 4, 32, 2, 0.0))
    x_BLD, (memory_BLD, mask_BL) = torch.randn(2, 6, 16), padded_memory()
    changed_BLD = x_BLD.clone()
    changed_BLD[:, 4:] = 7.0
    outputs = [decoder(words_BLD, decoder.start(memory_BLD, mask_BL)) for words_BLD in (x_BLD, changed_BLD)]
    torch.testing.assert_close(outputs[0][:, :4], outputs[1][:, :4])
    assert not torch.allclose(outputs[0][:, 4:], outputs[1][:, 4:])


def test_captions_of_a_pair_side_by_side_are_those_captions_alone():
    decoder = seeded(lambda: Decoder(16, 4, 32, 2, 0.0))
    x_RLD, (memory_BLD, mask_BL) = torch.randn(6, 4, 16), padded_memory()
    together_RLD = decoder(x_RLD, decoder.start(memory_BLD, mask_BL))
    pair_R = torch.arange(2).repeat_interleave(3)
    torch.testing.assert_close(
        together_RLD, decoder(x_RLD, decoder.start(memory_BLD[pair_R], mask_BL[pair_R]))
    )


def test_beams_that_fork_and_end_go_on_as_the_words_of_their_ancestors():
    decoder = seeded(lambda: Decoder(16, 4, 32, 2, 0.0))
    memory_BLD, mask_BL = padded_memory()
    first_RD, second_RD, third_RD = torch.randn(2, 16), torch.randn(4, 16), torch.randn(3, 16)
    _, state = decoder.step(first_RD, decoder.start(memory_BLD, mask_BL))
    state = state.select(
        torch.tensor([0, 0, 1, 1]), BeamSlots(torch.tensor([0, 1, 3, 5]), 2, 3)
    )  # two of three beams of each pair
    _, state = decoder.step(second_RD, state)
    state = state.select(
        torch.tensor([1, 0, 1]), BeamSlots(torch.tensor([0, 1, 2]), 2, 3)
    )  # the second pair has ended, a beam has forked
    found_RD, _ = decoder.step(third_RD, state)
    for row, parent in enumerate([1, 0, 1]):
        words_BLD = torch.stack([first_RD[0], second_RD[parent], third_RD[row]]).unsqueeze(0)
        alone_BLD = decoder(words_BLD, decoder.start(memory_BLD[:1], mask_BL[:1]))
        torch.testing.assert_close(found_RD[row], alone_BLD[0, -1], atol=1e-5, rtol=1e-5)


def test_dropout_is_of_training_only():
    encoder = seeded(lambda: TransformerLayers(16, 4, 32, 2, 0.5))
    x_BLD = torch.randn(1, 3, 16)
    assert torch.equal(encoder(x_BLD, None), encoder(x_BLD, None))
    encoder.train()
    assert not torch.allclose(encoder(x_BLD, None), encoder(x_BLD, None))


def test_the_padding_of_an_embedding_is_zero():
    embedding = small_embedding(10, 4, padding=0)
    assert not embedding.weight[0].any() and embedding.weight[1:].any(1).all()
