"""Settings of the commands: one dataclass per command, one field per option. It does not import torch."""

from fashioniq.config.data import (
    CheckData,
    DownloadImages,
    DrawSample,
    ExtractAttributes,
    ExtractFeatures,
    FetchSpice,
    ImportCatalog,
    ImportFeatures,
    PairReferences,
)
from fashioniq.config.dialogue import Asking, Chat, EvalChatIR, MakeDialogues, Search
from fashioniq.config.evaluation import (
    Compare,
    Cross,
    EvalCaptions,
    EvalDialogs,
    EvalSingleTurn,
    Evaluation,
    Results,
    Score,
    SimulatedDialogs,
    SingleTurn,
    WriteQueries,
)
from fashioniq.config.fields import check, option, required
from fashioniq.config.training import (
    RetrieverTrainingSettings,
    TrainAttributes,
    TrainCaptioner,
    TrainComposer,
    TrainDialogEncoder,
    Training,
    TrainLinear,
    TrainRetriever,
)

SYSTEMS: dict[str, type[Evaluation]] = {  # options of the systems in this package, by --system
    "fashion-iq": EvalDialogs,
    "chatir": EvalChatIR,
    "plugir": EvalChatIR,
}

__all__ = [
    "SYSTEMS",
    "Asking",
    "Chat",
    "CheckData",
    "Compare",
    "Cross",
    "DownloadImages",
    "DrawSample",
    "EvalCaptions",
    "EvalChatIR",
    "EvalDialogs",
    "EvalSingleTurn",
    "Evaluation",
    "ExtractAttributes",
    "ExtractFeatures",
    "FetchSpice",
    "ImportCatalog",
    "ImportFeatures",
    "MakeDialogues",
    "PairReferences",
    "Results",
    "RetrieverTrainingSettings",
    "Score",
    "Search",
    "SimulatedDialogs",
    "SingleTurn",
    "TrainAttributes",
    "TrainCaptioner",
    "TrainComposer",
    "TrainDialogEncoder",
    "TrainLinear",
    "TrainRetriever",
    "Training",
    "WriteQueries",
    "check",
    "option",
    "required",
]
