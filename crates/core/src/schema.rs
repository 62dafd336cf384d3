//! A tool's JSON Schema, compiled once, and the check of an input against it.

mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

use self::work::Work;
use crate::limits::Limits;

/// Patterns of one schema; with more it is refused.
const MOST_PATTERNS: usize = 64;
/// What a pattern may become when it is compiled; a larger one is refused.
const PATTERN_BYTES: usize = 256 << 10;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not an object.
    #[error("it must be a JSON Schema object")]
    NotAnObject,
    /// Too many bytes.
    #[error("it has {found} bytes; at most {allowed} are allowed")]
    TooLarge {
        /// Its size.
        found: usize,
        /// The limit.
        allowed: usize,
    },
    /// Nested too deeply.
    #[error("it is nested more than {allowed} deep")]
    TooDeep {
        /// The limit.
        allowed: usize,
    },
    /// Not a valid schema, or it refers to something outside itself.
    #[error("{0}")]
    Invalid(String),
}

/// An input that a tool does not take.
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
    Compiled {
        validator: Box<Validator>,
        /// The depth up to which an input can be checked in time.
        deepest: usize,
    },
}

/// How many violations an error names.
const SHOWN_ERRORS: usize = 3;
/// How much of one violation an error shows: it may quote the input.
const SHOWN_CHARACTERS: usize = 200;

impl Schema {
    /// The schema of a tool that says nothing about its input.
    pub fn any_object() -> Self {
        Self { source: raw(r#"{"type":"object"}"#), check: Check::AnyObject }
    }

    /// Compiles a schema. Nothing is ever fetched: a reference must lead to somewhere in the schema itself.
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
            let deepest = match work::of(&value) {
                Work::Little => limits.input_depth,
                Work::Multiplying { deepest } => deepest.min(limits.input_depth),
                Work::TooMuch => {
                    return Err(SchemaError::Invalid("its references make checking too much work".into()));
                }
            };
            let patterns = work::patterns(&value);
            if patterns > MOST_PATTERNS {
                let problem = format!("it has {patterns} patterns; at most {MOST_PATTERNS} are allowed");
                return Err(SchemaError::Invalid(problem));
            }
            // The default engine backtracks: a hostile pattern could run for ever.
            let engine = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
            let validator = jsonschema::options()
                .with_pattern_options(engine)
                .with_retriever(FetchNothing)
                .build(&value)
                .map_err(|error| SchemaError::Invalid(shorten(&error.to_string())))?;
            Check::Compiled { validator: Box::new(validator), deepest }
        };
        Ok(Self { source: one_line(source.to_owned()), check })
    }

    /// The schema as the client wrote it, on one line.
    pub fn source(&self) -> &RawValue {
        &self.source
    }

    /// Checks an input: says where and why it does not fit.
    pub fn check(&self, input: &RawValue, limits: &Limits) -> Result<(), InputError> {
        let text = input.get();
        let (validator, deepest) = match &self.check {
            Check::AnyObject => (None, limits.input_depth),
            Check::Compiled { validator, deepest } => (Some(validator), *deepest),
        };
        // A short text cannot be deep.
        if text.len() > deepest && depth(text) > deepest {
            return Err(InputError(format!("the input is nested more than {deepest} deep")));
        }
        if !text.starts_with('{') {
            return Err(InputError("the input must be a JSON object".into()));
        }
        let Some(validator) = validator else { return Ok(()) };
        let value: Value = serde_json::from_str(text).map_err(|error| InputError(error.to_string()))?;
        if validator.is_valid(&value) {
            return Ok(());
        }
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .take(SHOWN_ERRORS)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { "the input".to_owned() } else { format!("at {path}") };
                format!("{place}: {}", shorten(&error.to_string()))
            })
            .collect();
        Err(InputError(errors.join("; ")))
    }
}

/// Compiled schemas, shared: a thousand clients of one application register the same tools.
#[derive(Debug, Default)]
pub struct Schemas {
    // std's mutex: a lookup is all that happens inside.
    known: Mutex<HashMap<Box<str>, Weak<Schema>>>,
}

impl Schemas {
    /// The compiled schema of a source, made once for as long as a tool uses it.
    pub fn compile(&self, source: Option<&RawValue>, limits: &Limits) -> Result<Arc<Schema>, SchemaError> {
        let text = source.map_or(r#"{"type":"object"}"#, RawValue::get);
        if let Some(schema) = self.lock().get(text).and_then(Weak::upgrade) {
            return Ok(schema);
        }
        let schema = Arc::new(match source {
            Some(source) => Schema::compile(source, limits)?,
            None => Schema::any_object(),
        });
        let mut known = self.lock();
        // Swept when it would grow, so that it holds no more than twice what is in use.
        if known.len() == known.capacity() {
            known.retain(|_, schema| schema.strong_count() > 0);
        }
        known.insert(text.into(), Arc::downgrade(&schema));
        Ok(schema)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Weak<Schema>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses every reference that leads outside the schema.
struct FetchNothing;

impl Retrieve for FetchNothing {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("references to {uri} are not followed; put the definition under $defs").into())
    }
}

/// How deep a JSON text is nested.
pub fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An object with nothing in it.
pub fn empty_object() -> Box<RawValue> {
    // A map can always be written.
    serde_json::value::to_raw_value(&serde_json::Map::new()).unwrap_or_default()
}

/// The same JSON on one line: in JSON a line break can only be white space, and an SSE frame must not have any.
pub fn one_line(source: Box<RawValue>) -> Box<RawValue> {
    let text = source.get();
    if text.contains(['\n', '\r']) { raw(&text.replace(['\n', '\r'], " ")) } else { source }
}

/// Raw JSON from a text that is known to be JSON.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
