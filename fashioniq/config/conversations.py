"""Settings of the training on conversations of words and pictures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fashioniq.config.shared import OfConversations, option, refuse, section
from fashioniq.config.training import OfWords, Training, run_folder
from fashioniq.models.configs import ChatSearcherConfig


@dataclass(kw_only=True)
class TrainChatsearcher(OfConversations, OfWords, Training):
    """Train a ChatSearcher: a causal language model that finds pictures in conversations of words and pictures."""

    run: Path | None = run_folder("runs/chatsearcher-STAGE")
    stage: Literal["captions", "conversations"] = option(
        "conversations",
        "captions: a caption and its picture in any order, all of it is predicted (stage 1); conversations: what "
        "the assistant says and shows is predicted (stage 2)",
    )
    init_from: Path | None = option(
        None,
        "run of another stage that training starts from, whose sizes and language model replace those given; or a "
        "BLIP-2 (a folder of transformers, or a checkpoint of LAVIS), whose Q-Former becomes the perceiver",
        reads="chatsearcher or file",
    )
    language_model: str | None = option(
        None,
        "causal language model by folder or Hugging Face name, such as a LLaMA or Qwen (default: a small decoder of "
        "whole words, trained from scratch)",
    )
    tune: Literal["all", "lora", "frozen"] = option(
        "all",
        "weights of the language model that are trained: all (paper), low-rank additions (needs the package peft), "
        "or none (as in FROMAGe); what is not trained is in bfloat16 on a GPU",
        research=True,
    )
    model: ChatSearcherConfig = section(ChatSearcherConfig, "sizes of the ChatSearcher")
    negatives: Literal["queue", "batch", "full"] = option(
        "queue",
        "negatives of a picture: a queue of the latest pictures (paper), the batch, or all items of train",
        research=True,
    )
    queue: int = option(1000, "length of the queue in pictures", least=1, below=10**7, research=True)
    subtasks: list[str] = option(
        [], "sub-tasks whose conversations are trained on (default: t i m)", research=True
    )
    held_out: float = option(
        0.1,
        "share of the items of train whose conversations choose the best epoch",
        least=0.01,
        below=0.9,
        research=True,
    )
    learning_rate: float | None = option(
        None,
        "AdamW learning rate; linear warmup over 3 % of the steps, then cosine decay to zero (default: 1e-3 for "
        "captions and 5e-4 for conversations; with --language-model 2e-5 and 2e-6 as in the paper)",
        least=0,
        research=True,
    )
    epochs: int = 20

    def validate(self) -> None:
        refuse(
            (
                set(self.subtasks) - {"t", "i", "m"},
                f"expected some of t, i and m in --subtasks, found {' '.join(self.subtasks)}; correct it",
            ),
            (
                self.devices * self.num_nodes > 1,
                "a ChatSearcher is trained on one device; leave out --devices and --num-nodes",
            ),
        )
