"""All classes of hostile cases, by name, in the order of the table."""

import conversation_inputs
import environments
import evaluated_files
import given_options
import imported_files
import process_pairs
import service_inputs
import service_trials
import shown_texts
import trained_inputs
import unicode_forms
from cases import CLASSES

MODULES = (trained_inputs, given_options, imported_files, evaluated_files, shown_texts, conversation_inputs)
MODULES += (service_inputs, environments, service_trials, process_pairs, unicode_forms)
__all__ = ["CLASSES", "MODULES"]
