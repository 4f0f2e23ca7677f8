"""Models that turn texts into vectors: which one a graph records, who serves it, and how rows get their vectors."""

from omnigraph.embedding.fill import ROWS_PER_PART, embedded_properties, filled, text_vector, text_vectors
from omnigraph.embedding.models import unusable_models, with_models
from omnigraph.embedding.settings import Settings, current_settings, settings_of
from omnigraph.errors.embedding import EmbeddingFailed, ModelMismatch, UnsuitableModel

__all__ = [
    "ROWS_PER_PART",
    "EmbeddingFailed",
    "ModelMismatch",
    "Settings",
    "UnsuitableModel",
    "current_settings",
    "embedded_properties",
    "filled",
    "settings_of",
    "text_vector",
    "text_vectors",
    "unusable_models",
    "with_models",
]
