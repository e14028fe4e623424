"""Relative captioner: describes how a target product differs from a reference (Fashion IQ, section 4.1).

A transformer encoder takes the difference of the two image features and the attributes of both products; the
decoder generates at most eight words.
"""

import torch
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import PAD
from fashioniq.models.attributes import AttributeScores
from fashioniq.models.configs import CaptionerConfig
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.models.layers import Decoder, DecoderState, TransformerLayers, small_embedding


class Captioner(BaseCaptioner):
    """Transformer captioner, (reference, target) → words.

    `attributes` is the size of the attribute vocabulary; with 0 the model uses no attributes. With `scores`, they are
    one token of the difference of all scores (released code), instead of those of the eight highest (paper).
    """

    def __init__(
        self,
        config: CaptionerConfig,
        *,
        vocabulary: int,
        features: int,
        attributes: int,
        scores: bool = False,
    ) -> None:
        width, max_words = config.width, config.max_words
        by_id = 0 if scores else attributes
        super().__init__(config, vocabulary=vocabulary, features=features, attributes=by_id)
        self.scores = (
            AttributeScores(features=features, attributes=attributes, width=width) if scores else None
        )
        self.role = small_embedding(3, width)
        self.word = small_embedding(vocabulary, width, padding=PAD)
        self.place = small_embedding(max_words + 1, width)
        self.drop = nn.Dropout(config.dropout)
        self.encoder = TransformerLayers(width, config.heads, config.hidden, config.layers, config.dropout)
        self.decoder = Decoder(width, config.heads, config.hidden, config.layers, config.dropout)
        self.out = nn.Linear(width, vocabulary)

    def encode(self, reference: ItemInputs, target: ItemInputs) -> DecoderState:
        """Encode the two products once per pair, and return the state before the first word."""
        tokens, masks = self._tokens(reference, target)
        if self.scores is not None:
            difference_BD = reference.features_BD - target.features_BD
            tokens.append(self.scores(difference_BD).unsqueeze(1) + self.role.weight[1])
            masks.append(masks[0])
        mask_BL = torch.cat(masks, 1)
        return self.decoder.start(self.encoder(self.drop(torch.cat(tokens, 1)), mask_BL), mask_BL)

    def forward(self, reference: ItemInputs, target: ItemInputs, words_RL: Tensor) -> Tensor:
        return self.out(self.decoder(self._embed(words_RL, 0), self.encode(reference, target)))

    def advance(self, last_R: Tensor, place: int, state: DecoderState) -> tuple[Tensor, DecoderState]:
        x_R1D = self._embed(last_R.unsqueeze(1), place)
        x_RD, state = self.decoder.step(x_R1D.squeeze(1), state)
        return self.out(x_RD), state

    def _embed(self, words_RL: Tensor, place: int) -> Tensor:
        return self.drop(self.word(words_RL) + self.place.weight[place : place + words_RL.shape[1]])
