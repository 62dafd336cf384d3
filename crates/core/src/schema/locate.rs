//! Finds the subschemas of a schema, and the targets of its references.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::NodeId;
use super::uri::{decode, resolve, split_fragment};

/// The most bytes of a subschema's address. Each subschema stores its whole address, so a long common prefix is costly.
const LONGEST_URI: usize = 1 << 10;

/// The drafts of JSON Schema, as far as they differ here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaDraft {
    /// Up to draft 7: keywords beside a `$ref` are ignored.
    Old,
    /// 2019-09 and 2020-12.
    New,
}

impl SchemaDraft {
    /// The draft that a schema declares; without a declaration, the newest.
    fn of(schema: &Value) -> Result<Self, String> {
        let Some(said) = schema.get("$schema") else { return Ok(Self::New) };
        let name = said.as_str().map(|said| said.trim_end_matches('#').replacen("https://", "http://", 1));
        match name.as_deref().and_then(|name| name.strip_prefix("http://json-schema.org/")) {
            Some("draft-04/schema" | "draft-06/schema" | "draft-07/schema" | "schema") => Ok(Self::Old),
            Some("draft/2019-09/schema" | "draft/2020-12/schema") => Ok(Self::New),
            _ => Err(format!("`$schema` is {said}, which is not a known draft of JSON Schema")),
        }
    }
}

/// The kind of value that a keyword has.
enum Below {
    Schema,
    Schemas,
    NamedSchemas,
}

/// The kind of subschemas that a keyword has, if any. Two keywords allow either of two kinds.
fn below(draft: SchemaDraft, keyword: &str, value: &Value) -> Option<Below> {
    Some(match keyword {
        "additionalProperties" | "propertyNames" | "contains" | "not" | "if" | "then" | "else" | "additionalItems" => {
            Below::Schema
        }
        "items" if !value.is_array() => Below::Schema,
        "items" | "allOf" | "anyOf" | "oneOf" => Below::Schemas,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependencies" => Below::NamedSchemas,
        _ if draft == SchemaDraft::Old => return None,
        "unevaluatedProperties" | "unevaluatedItems" => Below::Schema,
        "prefixItems" => Below::Schemas,
        "dependentSchemas" => Below::NamedSchemas,
        _ => return None,
    })
}

/// A subschema.
#[derive(Debug)]
pub(super) struct Location<'a> {
    pub(super) value: &'a Value,
    resource: usize,
    /// The subschema that contains this one; the root contains itself.
    parent: usize,
    /// The path from the parent to this subschema.
    step: String,
}

/// A schema that is named by `$id`.
#[derive(Debug)]
struct Resource<'a> {
    uri: String,
    root: &'a Value,
}

#[derive(Debug)]
pub(super) struct Locations<'a> {
    pub(super) draft: SchemaDraft,
    all: Vec<Location<'a>>,
    /// Subschemas by the address of their JSON, which does not move meanwhile.
    known: HashMap<usize, NodeId>,
    resources: Vec<Resource<'a>>,
    by_uri: HashMap<String, usize>,
    anchors: HashMap<(usize, &'a str), &'a Value>,
    /// How many dynamic anchors have each name; `$recursiveAnchor` has the name "".
    dynamic: HashMap<&'a str, usize>,
}

impl<'a> Locations<'a> {
    pub(super) fn of(schema: &'a Value) -> Result<Self, String> {
        let mut locations = Self {
            draft: SchemaDraft::of(schema)?,
            all: Vec::new(),
            known: HashMap::new(),
            resources: vec![Resource { uri: String::new(), root: schema }],
            by_uri: HashMap::from([(String::new(), 0)]),
            anchors: HashMap::new(),
            dynamic: HashMap::new(),
        };
        locations.enter(schema, 0, 0, String::new())?;
        Ok(locations)
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&Location<'a>> {
        self.all.get(id)
    }

    /// The number of the subschema at this JSON value, if there is one.
    pub(super) fn id(&self, value: &Value) -> Option<NodeId> {
        self.known.get(&std::ptr::from_ref(value).addr()).copied()
    }

    /// The path of a subschema.
    pub(super) fn path(&self, id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some(location) = self.all.get(at).filter(|_| at != 0) {
            steps.push(location.step.as_str());
            at = location.parent;
        }
        steps.reverse();
        if steps.is_empty() { "the schema".to_owned() } else { format!("at /{}", steps.join("/")) }
    }

    /// Adds a subschema and all below it. The recursion is bounded, because the depth of a schema is.
    fn enter(&mut self, value: &'a Value, resource: usize, parent: usize, step: String) -> Result<NodeId, String> {
        let id = self.all.len();
        let wrong = |problem: &str| Err(format!("{}: {problem}", self.path(parent)));
        let fields = match value {
            Value::Object(fields) => Some(fields),
            Value::Bool(_) => None,
            _ => return wrong(&format!("{step} is no schema: a schema is an object or a boolean")),
        };
        self.known.insert(std::ptr::from_ref(value).addr(), id);
        self.all.push(Location { value, resource, parent, step });
        let Some(fields) = fields else { return Ok(id) };
        let resource = self.name(id, fields, resource)?;
        self.all[id].resource = resource;
        for (keyword, value) in fields {
            match (below(self.draft, keyword, value), value) {
                (None, _) => {}
                (Some(Below::Schema), part) => _ = self.enter(part, resource, id, keyword.clone())?,
                (Some(Below::Schemas), Value::Array(parts)) => {
                    for (place, part) in parts.iter().enumerate() {
                        self.enter(part, resource, id, format!("{keyword}/{place}"))?;
                    }
                }
                (Some(Below::NamedSchemas), Value::Object(parts)) => {
                    // In `dependencies`, an array has names of required properties and is no schema.
                    let is_schema = |part: &Value| keyword != "dependencies" || !part.is_array();
                    for (name, part) in parts.iter().filter(|(_, part)| is_schema(part)) {
                        self.enter(part, resource, id, format!("{keyword}/{name}"))?;
                    }
                }
                (Some(Below::Schemas), _) => {
                    return Err(format!("{}: `{keyword}` must be an array of schemas", self.path(id)));
                }
                (Some(Below::NamedSchemas), _) => {
                    return Err(format!("{}: `{keyword}` must be an object of schemas", self.path(id)));
                }
            }
        }
        Ok(id)
    }

    /// Registers the names of a subschema. Returns the resource that it belongs to.
    fn name(&mut self, id: NodeId, fields: &'a Map<String, Value>, resource: usize) -> Result<usize, String> {
        let text = |keyword: &str| match fields.get(keyword) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("{}: `{keyword}` must be a string", self.path(id))),
        };
        let (named, anchor, dynamic) = (text("$id")?, text("$anchor")?, text("$dynamicAnchor")?);
        let value = self.all[id].value;
        let is_old = self.draft == SchemaDraft::Old;
        let mut own = resource;
        match named {
            Some(_) if is_old && fields.contains_key("$ref") => {}
            Some(named) => {
                let (address, fragment) = split_fragment(named);
                if !address.is_empty() {
                    let uri = resolve(&self.resources[resource].uri, address);
                    if uri.len() > LONGEST_URI {
                        return Err(format!(
                            "{}: the address of an `$id` has more than {LONGEST_URI} bytes",
                            self.path(id)
                        ));
                    }
                    own = self.resources.len();
                    // If two have the same name, the first counts.
                    self.by_uri.entry(uri.clone()).or_insert(own);
                    self.resources.push(Resource { uri, root: value });
                }
                if !fragment.is_empty() {
                    self.anchors.entry((own, fragment)).or_insert(value);
                }
            }
            None => {}
        }
        if is_old {
            return Ok(own);
        }
        for name in [anchor, dynamic].into_iter().flatten() {
            self.anchors.entry((own, name)).or_insert(value);
        }
        if let Some(name) = dynamic {
            *self.dynamic.entry(name).or_default() += 1;
        }
        if fields.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
            *self.dynamic.entry("").or_default() += 1;
        }
        Ok(own)
    }

    /// The subschema that a reference leads to.
    pub(super) fn follow(&mut self, from: NodeId, keyword: &str, reference: &str) -> Result<NodeId, String> {
        let base = self.all[from].resource;
        let (address, fragment) = split_fragment(reference);
        let uri = resolve(&self.resources[base].uri, address);
        let elsewhere = || format!("references to {uri} are not followed; put the definition under $defs");
        // A reference that is only a fragment stays in its own resource, even if the root has no `$id`.
        let resource = if address.is_empty() { Some(&base) } else { self.by_uri.get(&uri) };
        let resource = *resource.ok_or_else(elsewhere)?;
        let missing = || format!("there is nothing at {reference}; put the definition under $defs");
        let fragment = decode(fragment).ok_or_else(missing)?;
        let is_dynamic = match keyword {
            "$dynamicRef" => !fragment.starts_with('/') && self.dynamic.get(fragment.as_str()).is_some_and(|n| *n > 1),
            "$recursiveRef" => self.dynamic.get("").is_some_and(|anchors| *anchors > 1),
            _ => false,
        };
        if is_dynamic {
            return Err(format!("`{keyword}` to one of several anchors is not supported; use `$ref`"));
        }
        let root = self.resources[resource].root;
        let (target, resource) = if fragment.is_empty() {
            (root, resource)
        } else if fragment.starts_with('/') {
            self.point(root, resource, &fragment).ok_or_else(missing)?
        } else {
            (*self.anchors.get(&(resource, fragment.as_str())).ok_or_else(missing)?, resource)
        };
        match self.id(target) {
            Some(id) => Ok(id),
            // No keyword makes a schema of this place, but the reference does.
            None => self.enter(target, resource, 0, fragment.trim_start_matches('/').to_owned()),
        }
    }

    /// The target of a JSON pointer, and the resource that it belongs to.
    fn point(&self, root: &'a Value, resource: usize, pointer: &str) -> Option<(&'a Value, usize)> {
        let (mut at, mut resource) = (root, resource);
        for token in pointer.split('/').skip(1) {
            let has_bad_escape = token.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
            if has_bad_escape {
                return None;
            }
            let token = token.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::Object(fields) => fields.get(&token)?,
                Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            if let Some(id) = self.id(at) {
                resource = self.all[id].resource;
            }
        }
        Some((at, resource))
    }
}
