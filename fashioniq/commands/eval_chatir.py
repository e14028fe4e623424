"""`fashioniq eval-chatir`: eval-dialogs with --system chatir."""

from fashioniq.commands.eval_dialogs import run as run
