"""Train the best small GPT that one GPU can, and know why it is fast."""

__version__ = "0.1.0"
