"""What the settings of several commands share: their field functions, and help texts that occur more than
once."""

from fashioniq.options import check, flag, option, required, section

__all__ = [
    "CATEGORY",
    "DATA",
    "DECODERS",
    "DEVICE",
    "FEATURES",
    "OUT",
    "check",
    "flag",
    "option",
    "required",
    "section",
]

DATA = "folder in Fashion IQ's layout"
CATEGORY = "category: dresses, shirts, tops, or the name of a category of your own"
FEATURES = "feature store (default: DATA/features/CATEGORY)"
DEVICE = "device: cpu, cuda, or auto for a GPU if there is one"
DECODERS = "processes that decode pictures; 0 decodes in the main process"
OUT = "output folder, replaced if it exists"
