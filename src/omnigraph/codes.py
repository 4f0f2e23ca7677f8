"""Every stable diagnostic code, in one table.

Scripts, editors and agents match on these codes, so a code never changes its meaning and is never reused. The
letter says who speaks: ``S`` the schema language, ``OG-M`` the plan from one schema to another, ``Q`` the
query parser, ``T`` the query typechecker, ``P`` a policy, ``L`` lint advice that does not stop anything.
`docs/reference/codes.md` explains each with an example.
"""

from enum import StrEnum


class Code(StrEnum):
    """The stable identity of one kind of finding."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "Code":
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # The lexical findings S001-S008 and Q001-Q008 are the same rules read in two languages.
    SCHEMA_SYNTAX = "S001", "unexpected text in a schema"
    SCHEMA_UNTERMINATED = "S002", "a text or comment in a schema never ends"
    SCHEMA_ESCAPE = "S003", "unknown escape in a schema text"
    SCHEMA_NUMBER = "S004", "a schema number does not fit 64 bits"
    SCHEMA_DATE = "S005", "a schema date or datetime is not valid"
    SCHEMA_NESTING = "S006", "a schema is nested too deeply"
    SCHEMA_TOO_LARGE = "S007", "a schema source is too large"
    SCHEMA_UNREADABLE = "S008", "a schema source is not readable text"
    UNKNOWN_SCALAR = "S101", "unknown property type"
    NAME_CASE = "S102", "a name starts with the wrong case"
    DUPLICATE_NAME = "S103", "a name is declared twice"
    UNKNOWN_INTERFACE = "S104", "unknown interface"
    CYCLIC_IMPLEMENTS = "S105", "interfaces implement each other"
    INTERFACE_CONFLICT = "S106", "a property disagrees with its interface"
    UNKNOWN_ENDPOINT = "S107", "an edge names an unknown node type"
    RESERVED_NAME = "S108", "a reserved name is declared"
    UNKNOWN_TARGET = "S109", "a constraint names an unknown property"
    CONSTRAINT_NOT_ALLOWED = "S110", "a constraint cannot apply there"
    ANNOTATION_ARGUMENTS = "S111", "wrong arguments to an annotation"
    INVALID_REGEX = "S112", "invalid regular expression"
    SECOND_KEY = "S113", "a type has more than one key"
    INVALID_DEFAULT = "S114", "a default does not fit its property"
    INVALID_EMBED = "S115", "an embedding cannot be filled"
    INVALID_CARDINALITY = "S116", "invalid cardinality"
    INVALID_RENAME = "S117", "a rename cannot be followed"
    INVALID_TYPE = "S118", "a type that cannot be stored"

    REQUIRED_ADDED = "OG-M001", "a required property is added without a value for the rows that are there"
    TYPE_CHANGED = "OG-M002", "a property cannot take another type"
    MADE_REQUIRED = "OG-M003", "a nullable property cannot become required"
    KEY_CHANGED = "OG-M004", "a key cannot be changed"
    ENDS_CHANGED = "OG-M005", "the ends of an edge cannot be changed"
    KIND_CHANGED = "OG-M006", "a name cannot become another kind of type"

    QUERY_SYNTAX = "Q001", "unexpected text in a query"
    QUERY_UNTERMINATED = "Q002", "a text or comment in a query never ends"
    QUERY_ESCAPE = "Q003", "unknown escape in a query text"
    QUERY_NUMBER = "Q004", "a query number does not fit 64 bits"
    QUERY_DATE = "Q005", "a query date or datetime is not valid"
    QUERY_NESTING = "Q006", "a query is nested too deeply"
    QUERY_TOO_LARGE = "Q007", "a query source is too large"
    QUERY_UNREADABLE = "Q008", "a query source is not readable text"
    HOP_BOUNDS = "Q009", "malformed hop bounds"

    DUPLICATE_QUERY = "T001", "two queries have the same name"
    DUPLICATE_PARAMETER = "T002", "two parameters have the same name"
    UNKNOWN_TYPE = "T003", "unknown node or edge type"
    UNKNOWN_PROPERTY = "T004", "unknown property"
    UNKNOWN_EDGE = "T005", "unknown edge"
    UNKNOWN_VARIABLE = "T006", "unknown variable"
    VARIABLE_REUSED = "T007", "a variable has two meanings"
    TRAVERSAL_ENDS = "T008", "the ends of a traversal do not fit the edge"
    HOPS_NOT_POSSIBLE = "T009", "hop bounds are not possible here"
    UNDIRECTED_ENDS = "T010", "an undirected traversal needs one node type at both ends"
    INCOMPARABLE = "T011", "the two sides cannot be compared"
    OPERATOR_NOT_DEFINED = "T012", "the operator is not defined for this type"
    VALUE_OUT_OF_RANGE = "T013", "a literal can never be a value of this type"
    UNKNOWN_FUNCTION = "T014", "unknown function"
    WRONG_ARGUMENTS = "T015", "wrong arguments to a function"
    FUNCTION_NOT_ALLOWED = "T016", "a function is used where it has no meaning"
    NEAREST_NEEDS_LIMIT = "T017", "`nearest` needs a `limit`"
    # T018 was "text is searched in a vector that no model fills", which is L014 today.
    DUPLICATE_COLUMN = "T019", "two result columns have the same name"
    ORDER_NOT_GROUPED = "T020", "an order key is not part of an aggregated result"
    BARE_NAME = "T021", "a bare name has no meaning here"
    EMPTY_QUERY = "T022", "a query binds or returns nothing"
    NOT_ASSIGNABLE = "T023", "a value does not fit its property"
    MISSING_PROPERTY = "T024", "an insert lacks a required property"
    SET_TWICE = "T025", "a property is given twice"
    NOT_UPDATABLE = "T026", "an identity cannot be updated"
    MISSING_ENDPOINT = "T027", "an edge insert lacks `from` or `to`"
    NULL_NOT_ALLOWED = "T028", "null is given to a required property"
    PARAMETER_TYPE = "T029", "a parameter's type cannot be used"
    INVALID_LIMIT = "T030", "a limit or an offset must be a whole number"
    VALUE_NOT_CONSTANT = "T031", "a value must be a literal, a parameter or `now()`"
    ENTITY_AS_VALUE = "T032", "a whole entity is used as a value"
    NOT_A_CONDITION = "T033", "a condition is not a truth value"
    NOT_GROUPED = "T034", "an aggregate is combined with a value that is not a group key"
    CAST_NOT_POSSIBLE = "T035", "a value cannot be cast to this type"
    NOT_CARRIED = "T040", "a column of `with` cannot become a variable"
    CONFLICT_NOT_POSSIBLE = "T050", "an insert cannot conflict with what is there"

    POLICY_SYNTAX = "P001", "a rule file is not YAML as it is read here"
    POLICY_TOO_LARGE = "P002", "a rule file is too large"
    POLICY_UNREADABLE = "P003", "a rule file is not readable text"
    POLICY_SHAPE = "P101", "a value of a rule file has the wrong shape"
    POLICY_KEY = "P102", "unknown key in a rule file"
    POLICY_DUPLICATE = "P103", "a key or a rule is there twice"
    POLICY_MISSING = "P104", "a rule or a test lacks a key"
    POLICY_WORD = "P105", "a word has no meaning where it stands"
    POLICY_ACTION = "P106", "unknown action"
    POLICY_GROUP = "P107", "unknown group"
    POLICY_RULE = "P108", "a test names an unknown rule"
    POLICY_TYPES = "P109", "types are named for an action that is not about types"
    POLICY_PATTERN = "P110", "a pattern or a group where only a name can stand"
    POLICY_TOO_MANY = "P111", "a list has too many patterns"

    UNUSED_PARAMETER = "L001", "a parameter is never used"
    UNUSED_VARIABLE = "L002", "a variable is bound and never used"
    NULL_COMPARISON = "L003", "a comparison with null never matches"
    CROSS_PRODUCT = "L004", "the pattern is not connected"
    UNBOUNDED_HOPS = "L005", "a traversal has no upper bound"
    SEARCH_WITHOUT_INDEX = "L006", "a text search reads every row"
    CONSTANT_CONDITION = "L007", "a condition does not depend on the graph"
    MISSPELT_ANNOTATION = "L008", "an unknown annotation looks like a known one"
    RENAME_DONE = "L009", "a rename has been done already"
    UNUSED_GROUP = "L010", "a group is in no rule"
    IDLE_RULE = "L011", "a rule is idle"
    GROUP_AS_ACTOR = "L012", "an actor has the name of a group"
    UNFILLED_VECTOR = "L013", "no configured model can fill a vector"
    UNRECORDED_MODEL = "L014", "a text is searched in a vector without a recorded model"
    NEEDLESS_HOPS = "L015", "hop bounds have no use here"
