"""Settings of the commands: one dataclass a command, one field an option. This package does not import
torch."""

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
    TrainRetriever,
)

__all__ = [
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
    "TrainRetriever",
    "Training",
    "WriteQueries",
    "check",
    "option",
    "required",
]
