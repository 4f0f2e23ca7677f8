"""What the annotations of a property mean: defaults, embeddings, and those kept for others to read."""

from collections.abc import Collection, Mapping, Sequence

from omnigraph.catalog.model import Embedding, KeptAnnotation
from omnigraph.catalog.types import PropertyType, Scalar, Vector
from omnigraph.catalog.values import OutOfRange, Value, WrongType, literal_hint, literal_value
from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, did_you_mean, nearest_name, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.printer import print_annotation_value

CONSTRAINTS = frozenset({"key", "unique", "index", "range", "check"})
_KNOWN = CONSTRAINTS | {"card", "embed", "rename_from", "default", "description", "instruction"}


@dataclass(frozen=True, slots=True)
class PropertyNotes:
    """The annotations of one property, understood."""

    default: Value | None
    embedding: Embedding | None
    kept: tuple[KeptAnnotation, ...]


def property_notes(
    annotations: Sequence[nodes.Annotation],
    *,
    type: PropertyType,
    nullable: bool,
    siblings: Mapping[str, PropertyType | None],
    findings: Findings,
) -> PropertyNotes:
    """The meaning of a property's annotations; `siblings` are all properties of the same type."""
    default: Value | None = None
    embedding: Embedding | None = None
    for annotation in annotations:
        if annotation.name == "default":
            default = _default(annotation, type, nullable, findings)
        elif annotation.name == "embed":
            embedding = _embedding(annotation, type, siblings, findings)
        elif annotation.name == "card":
            message = "`@card` belongs to an edge, not to a property"
            findings.report(Code.CONSTRAINT_NOT_ALLOWED, message, annotation.span)
    return PropertyNotes(default, embedding, kept_annotations(annotations, findings))


def kept_annotations(annotations: Sequence[nodes.Annotation], findings: Findings) -> tuple[KeptAnnotation, ...]:
    """The annotations that the catalog carries along; constraints are found elsewhere in it."""
    kept: list[KeptAnnotation] = []
    for annotation in annotations:
        if annotation.name in CONSTRAINTS:
            continue
        if annotation.name in _KNOWN and any(each.name == annotation.name for each in kept):
            message = f"{quoted('@' + annotation.name)} is given twice"
            findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span)
        if annotation.name in ("description", "instruction", "rename_from"):
            single_text(annotation, findings)
        else:
            report_misspelt(annotation, _KNOWN, findings)
        arguments = tuple(
            (f"{argument.keyword}=" if argument.keyword else "") + print_annotation_value(argument.value)
            for argument in annotation.arguments
        )
        kept.append(KeptAnnotation(annotation.name, arguments))
    return tuple(kept)


def report_misspelt(annotation: nodes.Annotation, known: Collection[str], findings: Findings) -> None:
    """Warns of an annotation that is kept without a meaning, but was probably meant to have one."""
    nearest = None if annotation.name in known else nearest_name(annotation.name, known)
    if nearest is not None:
        message = f"{quoted('@' + annotation.name)} is kept, but has no effect here"
        hint = f"did you mean {quoted('@' + nearest)}?"
        findings.report(Code.MISSPELT_ANNOTATION, message, annotation.span, hint)


def single_text(annotation: nodes.Annotation, findings: Findings, code: Code = Code.ANNOTATION_ARGUMENTS) -> str | None:
    """The one text that an annotation takes, or None after reporting that it does not have it."""
    match annotation.arguments:
        case (nodes.Argument(nodes.TextLiteral(text), None),):
            return text
    message = f"{quoted('@' + annotation.name)} takes one text"
    findings.report(code, message, annotation.span, f'write `@{annotation.name}("…")`')
    return None


def _default(annotation: nodes.Annotation, type: PropertyType, nullable: bool, findings: Findings) -> Value | None:
    match annotation.arguments:
        case (nodes.Argument(literal, None),) if isinstance(literal, nodes.Literal):
            return _default_value(literal, type, nullable, findings)
        case (nodes.Argument(nodes.NameArgument(name)),):
            hint = f'a text is written in double quotes: `@default("{name}")`'
        case _:
            hint = 'write `@default("text")`, `@default(0)` or `@default(true)`'
    findings.report(Code.ANNOTATION_ARGUMENTS, "`@default` takes one literal", annotation.span, hint)
    return None


def _default_value(literal: nodes.Literal, type: PropertyType, nullable: bool, findings: Findings) -> Value | None:
    try:
        value = literal_value(literal, type)
    except (WrongType, OutOfRange) as error:
        hint = literal_hint(literal, type)
        findings.report(Code.INVALID_DEFAULT, f"the default does not fit: {error}", literal.span, hint)
        return None
    if value is None and not nullable:
        message = "null cannot be the default of a required property"
        findings.report(Code.INVALID_DEFAULT, message, literal.span, "add a `?` to its type")
    return value


def _embedding(
    annotation: nodes.Annotation,
    type: PropertyType,
    siblings: Mapping[str, PropertyType | None],
    findings: Findings,
) -> Embedding | None:
    positional = [argument for argument in annotation.arguments if argument.keyword is None]
    keywords = {argument.keyword: argument for argument in annotation.arguments if argument.keyword is not None}
    model = keywords.pop("model", None)
    match positional:
        case [nodes.Argument(nodes.TextLiteral(source) | nodes.NameArgument(source) as text)] if (
            not keywords and _is_text(model)
        ):
            pass
        case _:
            message = "`@embed` takes the name of a text property, and optionally a model"
            hint = 'write `@embed("bio")` or `@embed("bio", model="…")`'
            findings.report(Code.ANNOTATION_ARGUMENTS, message, annotation.span, hint)
            return None
    if not isinstance(type, Vector):
        findings.report(Code.INVALID_EMBED, f"only a Vector can be embedded, not {type}", annotation.span)
        return None
    if source in siblings and siblings[source] is None:
        return None
    if siblings.get(source) is not Scalar.STRING:
        known = [name for name, sibling in siblings.items() if sibling is Scalar.STRING]
        what = "is not a String" if source in siblings else "is not a property here"
        findings.report(Code.INVALID_EMBED, f"{quoted(source)} {what}", text.span, did_you_mean(source, known))
        return None
    return Embedding(source, _text_of(model))


def _is_text(argument: nodes.Argument | None) -> bool:
    return argument is None or isinstance(argument.value, nodes.TextLiteral)


def _text_of(argument: nodes.Argument | None) -> str | None:
    return argument.value.value if argument is not None and isinstance(argument.value, nodes.TextLiteral) else None
