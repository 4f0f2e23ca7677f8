"""Models that turn texts into vectors: which one a graph records, its provider, and how rows get their vectors."""

from omnigraph.embedding.fill import ROWS_PER_PART, embedded_properties, fill_vectors, text_vector, text_vectors
from omnigraph.embedding.models import model_findings, unusable_models, with_models
from omnigraph.embedding.settings import EmbeddingSettings, current_settings, settings_of
from omnigraph.errors import EmbeddingFailed, ModelMismatch, UnsuitableModel
