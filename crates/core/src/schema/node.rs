//! A schema in the form in which it is checked: a list of subschemas that refer to each other by number.

use serde_json::{Number, Value};

use super::number::Divisor;
use super::pattern::Pattern;

/// The number of a subschema.
pub(super) type NodeId = usize;

/// A compiled schema; the first node is its root.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) nodes: Box<[Node]>,
    pub(super) patterns: Box<[Pattern]>,
}

/// A compiled subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// In the order of checking: keywords that depend on others come last.
    pub(super) keywords: Box<[Keyword]>,
    /// The cost in steps of checking its keywords.
    pub(super) cost: usize,
    /// Whether it must know what its other keywords have evaluated.
    pub(super) has_unevaluated: bool,
}

impl Node {
    /// The node that this one only refers to, if it has no other keywords.
    pub(super) fn alias(&self) -> Option<NodeId> {
        match &*self.keywords {
            [Keyword::Reference(node)] => Some(*node),
            _ => None,
        }
    }
}

/// Subschemas by name, sorted.
pub(super) type NamedNodes = Box<[(Box<str>, NodeId)]>;

pub(super) type Names = Box<[Box<str>]>;

/// A keyword, or several that belong together.
#[derive(Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Type(Types),
    Enum(Box<[Value]>),
    Const(Value),
    Minimum(Number),
    Maximum(Number),
    ExclusiveMinimum(Number),
    ExclusiveMaximum(Number),
    MultipleOf(Number, Divisor),
    MinLength(u64),
    MaxLength(u64),
    Pattern(usize),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    /// `prefixItems` and `items`, or `items` and `additionalItems` in old drafts.
    Items {
        first: Box<[NodeId]>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: Option<u64>,
    },
    MinProperties(u64),
    MaxProperties(u64),
    Required(Names),
    DependentRequired(Box<[(Box<str>, Names)]>),
    DependentSchemas(NamedNodes),
    PropertyNames(NodeId),
    /// `properties`, `patternProperties` and `additionalProperties`.
    Properties {
        named: NamedNodes,
        patterns: Box<[(usize, NodeId)]>,
        rest: Option<NodeId>,
    },
    Reference(NodeId),
    AllOf(Box<[NodeId]>),
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

impl Keyword {
    /// The subschemas that the same value is checked against.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::Reference(node) | Self::Not(node) => vec![*node],
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) => nodes.to_vec(),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::DependentSchemas(named) => named.iter().map(|(_, node)| *node).collect(),
            _ => Vec::new(),
        }
    }
}

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    const NAMES: [&'static str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

    /// Adds a type; `None` if there is no such type.
    pub(super) fn with(self, name: &str) -> Option<Self> {
        let place = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self(self.0 | 1 << place))
    }

    pub(super) fn contains(self, value: &Value) -> bool {
        // The indexes are those of `NAMES`.
        let has = |place: u8| self.0 >> place & 1 == 1;
        match value {
            Value::Array(_) => has(0),
            Value::Bool(_) => has(1),
            Value::Null => has(3),
            Value::Number(number) => has(4) || (has(2) && super::number::is_integer(number)),
            Value::Object(_) => has(5),
            Value::String(_) => has(6),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |name| self.with(name) == Some(self))
    }
}
