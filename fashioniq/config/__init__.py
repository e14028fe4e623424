"""Settings of the commands: one dataclass per command, one field per option. It does not import torch."""

from fashioniq.config.data import (
    CaptionPairs,
    CheckData,
    DownloadImages,
    DrawSample,
    ExtractAttributes,
    ExtractFeatures,
    ImportCatalog,
)
from fashioniq.config.dialogue import (
    Asking,
    Chat,
    DescribePictures,
    EndpointOptions,
    MakeConversations,
    MakeDialogues,
    Search,
)
from fashioniq.config.evaluation import (
    Compare,
    EvalCaptions,
    EvalChatIR,
    EvalDialogs,
    Evaluation,
)
from fashioniq.config.generation import (
    DescribedProducts,
    EvalDAR,
    EvalFashionIQDAR,
    EvalGenIR,
    EvalPlugIR,
    Generation,
)
from fashioniq.config.retrievers import (
    RetrieverTrainingSettings,
    TrainComposer,
    TrainDialogEncoder,
    TrainRetriever,
)
from fashioniq.config.searches import EvalChatsearch, EvalRequests, EvalSingleTurn
from fashioniq.config.service import ApiKey, CompareLive, Demo, Export, Forget, Learn, Serve
from fashioniq.config.shared import check, option, required
from fashioniq.config.training import (
    TrainAttributes,
    TrainCaptioner,
    TrainChatsearcher,
    TrainGenerator,
    Training,
)

JOBS: dict[str, dict[str, type]] = {  # commands and their options, by what they are for
    "Prepare": {
        "draw-sample": DrawSample,
        "import-catalog": ImportCatalog,
        "download-images": DownloadImages,
        "check-data": CheckData,
        "extract-attributes": ExtractAttributes,
        "extract-features": ExtractFeatures,
        "describe-pictures": DescribePictures,
        "caption-pairs": CaptionPairs,
        "make-dialogues": MakeDialogues,
        "make-conversations": MakeConversations,
    },
    "Train": {
        "train-attributes": TrainAttributes,
        "train-captioner": TrainCaptioner,
        "train-retriever": TrainRetriever,
        "train-composer": TrainComposer,
        "train-dialog-encoder": TrainDialogEncoder,
        "train-generator": TrainGenerator,
        "train-chatsearcher": TrainChatsearcher,
    },
    "Evaluate": {
        "eval-dialogs": EvalDialogs,
        "compare": Compare,
        "eval-captions": EvalCaptions,
        "eval-single-turn": EvalSingleTurn,
        "eval-chatsearch": EvalChatsearch,
        "eval-requests": EvalRequests,
    },
    "Use": {"demo": Demo, "search": Search, "chat": Chat, "export": Export},
    "Operate": {
        "serve": Serve,
        "learn": Learn,
        "compare-live": CompareLive,
        "forget": Forget,
        "api-key": ApiKey,
    },
}
COMMANDS: dict[str, type] = {name: kind for job in JOBS.values() for name, kind in job.items()}

__all__ = [
    "COMMANDS",
    "JOBS",
    "ApiKey",
    "Asking",
    "CaptionPairs",
    "Chat",
    "CheckData",
    "Compare",
    "CompareLive",
    "Demo",
    "DescribePictures",
    "DescribedProducts",
    "DownloadImages",
    "DrawSample",
    "EndpointOptions",
    "EvalCaptions",
    "EvalChatIR",
    "EvalChatsearch",
    "EvalDAR",
    "EvalDialogs",
    "EvalFashionIQDAR",
    "EvalGenIR",
    "EvalPlugIR",
    "EvalRequests",
    "EvalSingleTurn",
    "Evaluation",
    "Export",
    "ExtractAttributes",
    "ExtractFeatures",
    "Forget",
    "Generation",
    "ImportCatalog",
    "Learn",
    "MakeConversations",
    "MakeDialogues",
    "RetrieverTrainingSettings",
    "Search",
    "Serve",
    "TrainAttributes",
    "TrainCaptioner",
    "TrainChatsearcher",
    "TrainComposer",
    "TrainDialogEncoder",
    "TrainGenerator",
    "TrainRetriever",
    "Training",
    "check",
    "option",
    "required",
]
