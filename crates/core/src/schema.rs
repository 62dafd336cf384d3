//! A tool's JSON Schema, compiled once, and the check of an input against it.
//!
//! Schemas and inputs come from clients. Whatever they contain, they must not cost more than the bounds allow; that is
//! why the validator is our own. It knows the assertions of draft 7 and of 2020-12; `format` is an annotation, and
//! unknown keywords are ignored.
//!
//! | module | what it does |
//! | --- | --- |
//! | `bounds` | what schemas and inputs may cost |
//! | `locate`, `uri` | the subschemas of a schema, and the targets of its references |
//! | `compile`, `node` | turn the JSON of a schema into nodes that refer to each other by number |
//! | `check` | checks a value against the nodes |
//! | `pattern` | regular expressions |
//! | `equal`, `number` | compare JSON values |

mod bounds;
mod check;
mod compile;
mod equal;
mod locate;
mod node;
mod number;
mod pattern;
mod uri;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use ahash::HashMap;
use serde_json::Value;
use serde_json::value::RawValue;

use self::bounds::{BOUNDS, Steps, Stop};
use self::check::Unfit;
use self::node::Nodes;
use crate::aside::Aside;
use crate::limits::Limits;
use crate::text::shortened;

/// Whether two JSON texts say the same.
pub(crate) fn is_same_json(one: &RawValue, other: &RawValue) -> bool {
    let read = |json: &RawValue| serde_json::from_str::<Value>(json.get());
    // What is nested too deeply to be read is compared as text.
    one.get() == other.get()
        || matches!((read(one), read(other)), (Ok(one), Ok(other)) if equal::is_equal(&one, &other))
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema is not an object.
    #[error("it must be a JSON Schema object")]
    NotAnObject,
    /// The schema has too many bytes.
    #[error("it has {found} bytes; at most {allowed} are allowed")]
    TooLarge {
        /// The size of the schema.
        found: usize,
        /// The limit.
        allowed: usize,
    },
    /// The schema is nested too deeply.
    #[error("it is nested more than {allowed} deep")]
    TooDeep {
        /// The limit.
        allowed: usize,
    },
    /// The schema is not valid, or it refers to something outside itself.
    #[error("{0}")]
    Invalid(String),
}

/// Why a tool does not accept an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(String);

/// A compiled JSON Schema of an input. An input is always an object, whatever the schema says.
#[derive(Debug)]
pub struct Schema {
    source: Box<RawValue>,
    check: Check,
}

#[derive(Debug)]
enum Check {
    AnyObject,
    Compiled(Nodes),
}

/// Why a check did not succeed.
enum CheckFailure {
    Refused(InputError),
    OutOfSteps,
}

impl Schema {
    /// The schema of a tool that says nothing about its input.
    pub fn any_object() -> Self {
        Self { source: raw(r#"{"type":"object"}"#), check: Check::AnyObject }
    }

    /// Compiles a schema. Nothing is ever fetched: every reference must lead to a place in the schema itself.
    pub fn compile(source: &RawValue, limits: &Limits) -> Result<Self, SchemaError> {
        let text = source.get();
        if text.len() > limits.schema_bytes {
            return Err(SchemaError::TooLarge { found: text.len(), allowed: limits.schema_bytes });
        }
        if depth(text) > limits.schema_depth {
            return Err(SchemaError::TooDeep { allowed: limits.schema_depth });
        }
        let value: Value = serde_json::from_str(text).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let Value::Object(fields) = &value else { return Err(SchemaError::NotAnObject) };
        let says_nothing = fields.is_empty() || (fields.len() == 1 && fields.get("type") == Some(&"object".into()));
        let check = if says_nothing {
            Check::AnyObject
        } else {
            let nodes = compile::compile(&value, &BOUNDS);
            Check::Compiled(nodes.map_err(|problem| SchemaError::Invalid(shortened(&problem, SHOWN_CHARACTERS)))?)
        };
        Ok(Self { source: one_line(source.to_owned()), check })
    }

    /// The schema as the client wrote it, on one line.
    pub fn source(&self) -> &RawValue {
        &self.source
    }

    /// Checks an input. The error says where and why it does not fit.
    pub fn check(&self, input: &RawValue, limits: &Limits) -> Result<(), InputError> {
        self.check_within(&mut Steps::new(BOUNDS.steps), input, limits).map_err(|error| match error {
            CheckFailure::Refused(error) => error,
            CheckFailure::OutOfSteps => InputError("checking the input against the schema is too much work".into()),
        })
    }

    fn check_within(&self, steps: &mut Steps, input: &RawValue, limits: &Limits) -> Result<(), CheckFailure> {
        let text = input.get();
        let refused = |problem: String| Err(CheckFailure::Refused(InputError(problem)));
        let deepest = limits.input_depth;
        // A short text cannot be deep, nor have many values.
        let scan = if text.len() > deepest { scan(text) } else { Scan::default() };
        if scan.depth > deepest {
            return refused(format!("the input is nested more than {deepest} deep"));
        }
        if !text.starts_with('{') {
            return refused("the input must be a JSON object".into());
        }
        let Check::Compiled(nodes) = &self.check else { return Ok(()) };
        if scan.values > MOST_VALUES {
            return refused(format!("the input has more than {MOST_VALUES} values"));
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return refused(error.to_string()),
        };
        match check::check(nodes, &value, steps) {
            Ok(()) => Ok(()),
            Err(Unfit::Violations(violations)) => refused(violations.join("; ")),
            Err(Unfit::Stopped(Stop::Nested)) => refused("the input is nested too deep for the schema".into()),
            Err(Unfit::Stopped(_)) => Err(CheckFailure::OutOfSteps),
        }
    }
}

/// Compiled schemas, shared because a thousand clients of one application register the same tools. Long work runs
/// outside of the serving threads.
#[derive(Debug)]
pub struct Schemas {
    // A std mutex is enough: only lookups happen while it is locked.
    known: Mutex<HashMap<Box<str>, Weak<Schema>>>,
    aside: Aside,
}

impl Schemas {
    /// Starts without any schemas.
    pub fn new(aside: Aside) -> Self {
        Self { known: Mutex::default(), aside }
    }

    /// Returns the compiled schema of a source. It is compiled once and shared as long as a tool uses it.
    pub async fn compile(&self, source: Option<&RawValue>, limits: &Limits) -> Result<Arc<Schema>, SchemaError> {
        let Some(source) = source else { return Ok(Arc::new(Schema::any_object())) };
        if let Some(schema) = self.lock().get(source.get()).and_then(Weak::upgrade) {
            return Ok(schema);
        }
        if source.get().len() > limits.schema_bytes {
            return Schema::compile(source, limits).map(Arc::new);
        }
        let (text, limits) = (source.to_owned(), limits.clone());
        let compiled = self.aside.run(move || Schema::compile(&text, &limits)).await;
        let schema = Arc::new(compiled.unwrap_or_else(|| Err(SchemaError::Invalid(NOBODY.into())))?);
        let mut known = self.lock();
        // Swept before it would grow, so that it has at most twice as many entries as are in use.
        if known.len() == known.capacity() {
            known.retain(|_, schema| schema.strong_count() > 0);
        }
        known.insert(source.get().into(), Arc::downgrade(&schema));
        Ok(schema)
    }

    /// Checks an input. The error says where and why it does not fit.
    pub async fn check(&self, schema: &Arc<Schema>, input: &RawValue, limits: &Limits) -> Result<(), InputError> {
        if input.get().len() <= BOUNDS.bytes_at_once {
            match schema.check_within(&mut Steps::new(BOUNDS.steps_at_once), input, limits) {
                Ok(()) => return Ok(()),
                Err(CheckFailure::Refused(error)) => return Err(error),
                Err(CheckFailure::OutOfSteps) => {}
            }
        }
        let (schema, input, limits) = (schema.clone(), input.to_owned(), limits.clone());
        // Boxed: this is rare and large.
        let checked = Box::pin(self.aside.run(move || schema.check(&input, &limits))).await;
        checked.unwrap_or_else(|| Err(InputError(NOBODY.into())))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Weak<Schema>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many JSON values a text may have that is parsed into values, since each value takes far more memory than its
/// text. A text with more is refused.
pub const MOST_VALUES: usize = 64 << 10;

/// The error for work that was not done.
const NOBODY: &str = "the server is shutting down";

/// The depth to which a JSON text is nested.
pub fn depth(text: &str) -> usize {
    scan(text).depth
}

/// An upper bound on the number of values in a JSON text.
pub fn values(text: &str) -> usize {
    scan(text).values
}

/// What is known about a JSON text without parsing it.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    /// An upper bound on the number of values.
    values: usize,
}

fn scan(text: &str) -> Scan {
    let (mut depth, mut scan) = (0usize, Scan { depth: 0, values: 1 });
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                scan.values += 1;
                scan.depth = scan.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => scan.values += 1,
            _ => {}
        }
    }
    scan
}

/// An empty JSON object.
pub fn empty_object() -> Box<RawValue> {
    // Serialising a map cannot fail.
    serde_json::value::to_raw_value(&serde_json::Map::new()).unwrap_or_default()
}

/// The same JSON on one line, since SSE frames must not have line breaks. In JSON, line breaks are only white space.
pub fn one_line(source: Box<RawValue>) -> Box<RawValue> {
    let text = source.get();
    if text.contains(['\n', '\r']) { raw(&text.replace(['\n', '\r'], " ")) } else { source }
}

/// Raw JSON from a text that is known to be JSON.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// How many characters of a schema's error are shown, since it may quote the schema.
const SHOWN_CHARACTERS: usize = 400;

#[cfg(test)]
mod tests;
