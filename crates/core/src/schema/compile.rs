//! Turns the JSON of a schema into nodes.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::bounds::Bounds;
use super::equal::size;
use super::locate::{Locations, SchemaDraft};
use super::node::{Keyword, NamedNodes, Node, NodeId, Nodes, Types};
use super::number::Divisor;
use super::pattern::Pattern;

/// Compiles a schema, each subschema once. The error says what is wrong, and where.
pub(super) fn compile(schema: &Value, bounds: &Bounds) -> Result<Nodes, String> {
    let mut compiler = Compiler { locations: Locations::of(schema)?, patterns: Vec::new(), known: HashMap::new() };
    let mut nodes = Vec::new();
    // References can add subschemas.
    while let Some(location) = compiler.locations.get(nodes.len()) {
        let (id, value) = (nodes.len(), location.value);
        let node = compiler.node(id, value).map_err(|problem| format!("{}: {problem}", compiler.locations.path(id)))?;
        nodes.push(node);
    }
    must_end(&nodes, bounds).map_err(|(id, problem)| format!("{}: {problem}", compiler.locations.path(id)))?;
    Ok(Nodes { nodes: nodes.into(), patterns: patterns(&compiler.patterns, bounds)? })
}

fn patterns(sources: &[&str], bounds: &Bounds) -> Result<Box<[Pattern]>, String> {
    if sources.len() > bounds.patterns {
        return Err(format!("it has {} patterns; at most {} are allowed", sources.len(), bounds.patterns));
    }
    let mut size = 0;
    let compile = |source: &&str| {
        let wrong = |problem: String| format!("the pattern {source:?} cannot be used: {problem}");
        let pattern = Pattern::compile(source, bounds).map_err(wrong)?;
        size += pattern.size();
        if size > bounds.all_patterns {
            return Err("its patterns are too large when compiled".to_owned());
        }
        Ok(pattern)
    };
    sources.iter().map(compile).collect()
}

/// Refuses references that lead back to themselves with the same value, and chains that are too long for any value.
fn must_end(nodes: &[Node], bounds: &Bounds) -> Result<(), (NodeId, String)> {
    const UNKNOWN: usize = usize::MAX;
    const UNDER_WAY: usize = usize::MAX - 1;
    // The largest number of nodes that are evaluated inside each other, from each node on.
    let mut nested = vec![UNKNOWN; nodes.len()];
    for root in 0..nodes.len() {
        let mut stack = vec![(root, Vec::new())];
        while let Some((id, left)) = stack.last_mut() {
            let id = *id;
            if nested[id] == UNKNOWN {
                nested[id] = UNDER_WAY;
                *left = nodes[id].keywords.iter().flat_map(Keyword::in_place).collect();
            }
            match left.pop() {
                Some(next) if nested[next] == UNDER_WAY => {
                    let problem = "its references lead back to it without a step into the input";
                    return Err((next, problem.to_owned()));
                }
                Some(next) if nested[next] == UNKNOWN => stack.push((next, Vec::new())),
                Some(_) => {}
                None if nested[id] == UNDER_WAY => {
                    let below = nodes[id].keywords.iter().flat_map(Keyword::in_place).map(|next| nested[next]).max();
                    nested[id] = below.unwrap_or(0) + usize::from(nodes[id].alias().is_none());
                    if nested[id] > bounds.nested {
                        let problem = format!("its references are chained more than {} deep", bounds.nested);
                        return Err((id, problem));
                    }
                    stack.pop();
                }
                None => _ = stack.pop(),
            }
        }
    }
    Ok(())
}

struct Compiler<'a> {
    locations: Locations<'a>,
    patterns: Vec<&'a str>,
    known: HashMap<&'a str, usize>,
}

type Fields<'a> = &'a Map<String, Value>;

impl<'a> Compiler<'a> {
    fn node(&mut self, id: NodeId, value: &'a Value) -> Result<Node, String> {
        let mut keywords = Vec::new();
        match value {
            Value::Object(fields) if self.locations.draft == SchemaDraft::Old && fields.contains_key("$ref") => {
                self.references(id, fields, &mut keywords)?;
            }
            Value::Object(fields) => {
                self.values(fields, &mut keywords)?;
                self.objects(fields, &mut keywords)?;
                self.arrays(fields, &mut keywords)?;
                self.references(id, fields, &mut keywords)?;
                self.combinations(fields, &mut keywords)?;
            }
            Value::Bool(true) => {}
            _ => keywords.push(Keyword::Never),
        }
        let cost = 1 + keywords.iter().map(cost).sum::<usize>();
        let is_unevaluated =
            |keyword: &Keyword| matches!(keyword, Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_));
        let has_unevaluated = keywords.iter().any(is_unevaluated);
        Ok(Node { keywords: keywords.into(), cost, has_unevaluated })
    }

    /// Compiles the keywords for values of any type, for numbers and for strings.
    fn values(&mut self, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        if let Some(types) = fields.get("type") {
            keywords.push(Keyword::Type(read_types(types)?));
        }
        match fields.get("enum") {
            None => {}
            Some(Value::Array(values)) => keywords.push(Keyword::Enum(values.clone().into())),
            Some(_) => return Err("`enum` must be an array".to_owned()),
        }
        if let Some(value) = fields.get("const") {
            keywords.push(Keyword::Const(value.clone()));
        }
        self.bounds(fields, keywords)?;
        if let Some(number) = number(fields, "multipleOf")? {
            let divisor = Divisor::of(&number).ok_or("`multipleOf` must be above 0")?;
            keywords.push(Keyword::MultipleOf(number, divisor));
        }
        keywords.extend(count(fields, "minLength")?.map(Keyword::MinLength));
        keywords.extend(count(fields, "maxLength")?.map(Keyword::MaxLength));
        match fields.get("pattern") {
            None => {}
            Some(Value::String(source)) => keywords.push(Keyword::Pattern(self.pattern(source))),
            Some(_) => return Err("`pattern` must be a string".to_owned()),
        }
        Ok(())
    }

    fn bounds(&self, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        type Make = fn(Number) -> Keyword;
        let pairs: [(&str, Make, &str, Make); 2] = [
            ("minimum", Keyword::Minimum, "exclusiveMinimum", Keyword::ExclusiveMinimum),
            ("maximum", Keyword::Maximum, "exclusiveMaximum", Keyword::ExclusiveMaximum),
        ];
        for (inclusive, make, exclusive, make_exclusive) in pairs {
            let bound = number(fields, inclusive)?;
            match fields.get(exclusive) {
                // In draft 4 a boolean says whether the other bound is exclusive.
                Some(Value::Bool(is_exclusive)) if self.locations.draft == SchemaDraft::Old => {
                    keywords.extend(bound.map(if *is_exclusive { make_exclusive } else { make }));
                }
                _ => {
                    keywords.extend(bound.map(make));
                    keywords.extend(number(fields, exclusive)?.map(make_exclusive));
                }
            }
        }
        Ok(())
    }

    fn objects(&mut self, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        keywords.extend(count(fields, "minProperties")?.map(Keyword::MinProperties));
        keywords.extend(count(fields, "maxProperties")?.map(Keyword::MaxProperties));
        if let Some(required) = fields.get("required") {
            keywords.push(Keyword::Required(names("required", required)?));
        }
        let named = self.named(fields, "properties");
        let patterns: Vec<(usize, NodeId)> = match fields.get("patternProperties").and_then(Value::as_object) {
            Some(parts) => parts.iter().filter_map(|(name, part)| Some((self.pattern(name), self.id(part)?))).collect(),
            None => Vec::new(),
        };
        let rest = self.one(fields, "additionalProperties");
        if !named.is_empty() || !patterns.is_empty() || rest.is_some() {
            keywords.push(Keyword::Properties { named, patterns: patterns.into(), rest });
        }
        keywords.extend(self.one(fields, "propertyNames").map(Keyword::PropertyNames));
        let mut dependent = Vec::new();
        for keyword in ["dependencies", "dependentRequired"] {
            let is_known = self.locations.draft == SchemaDraft::New || keyword == "dependencies";
            match fields.get(keyword).filter(|_| is_known) {
                None => {}
                Some(Value::Object(parts)) => {
                    for (name, part) in parts.iter().filter(|(_, part)| self.id(part).is_none()) {
                        dependent.push((name.as_str().into(), names(keyword, part)?));
                    }
                }
                Some(_) => return Err(format!("`{keyword}` must be an object")),
            }
        }
        if !dependent.is_empty() {
            keywords.push(Keyword::DependentRequired(dependent.into()));
        }
        for keyword in ["dependencies", "dependentSchemas"] {
            let named = self.named(fields, keyword);
            if !named.is_empty() {
                keywords.push(Keyword::DependentSchemas(named));
            }
        }
        Ok(())
    }

    fn arrays(&mut self, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        keywords.extend(count(fields, "minItems")?.map(Keyword::MinItems));
        keywords.extend(count(fields, "maxItems")?.map(Keyword::MaxItems));
        match fields.get("uniqueItems") {
            Some(Value::Bool(true)) => keywords.push(Keyword::UniqueItems),
            None | Some(Value::Bool(false)) => {}
            Some(_) => return Err("`uniqueItems` must be a boolean".to_owned()),
        }
        let items_of_old = self.many(fields, "items");
        let (first, rest) = match items_of_old {
            Some(first) => (Some(first), self.one(fields, "additionalItems")),
            None => (self.many(fields, "prefixItems"), self.one(fields, "items")),
        };
        if first.is_some() || rest.is_some() {
            keywords.push(Keyword::Items { first: first.unwrap_or_default(), rest });
        }
        if let Some(node) = self.one(fields, "contains") {
            let (least, most) = match self.locations.draft {
                SchemaDraft::Old => (1, None),
                SchemaDraft::New => (count(fields, "minContains")?.unwrap_or(1), count(fields, "maxContains")?),
            };
            keywords.push(Keyword::Contains { node, least, most });
        }
        Ok(())
    }

    fn references(&mut self, id: NodeId, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if self.locations.draft == SchemaDraft::Old && keyword != "$ref" {
                continue;
            }
            match fields.get(keyword) {
                None => {}
                Some(Value::String(reference)) => {
                    keywords.push(Keyword::Reference(self.locations.follow(id, keyword, reference)?));
                }
                Some(_) => return Err(format!("`{keyword}` must be a string")),
            }
        }
        Ok(())
    }

    fn combinations(&mut self, fields: Fields<'a>, keywords: &mut Vec<Keyword>) -> Result<(), String> {
        type Make = fn(Box<[NodeId]>) -> Keyword;
        let several: [(&str, Make); 3] =
            [("allOf", Keyword::AllOf), ("anyOf", Keyword::AnyOf), ("oneOf", Keyword::OneOf)];
        for (keyword, make) in several {
            match self.many(fields, keyword) {
                Some(nodes) if nodes.is_empty() => return Err(format!("`{keyword}` must not be empty")),
                nodes => keywords.extend(nodes.map(make)),
            }
        }
        keywords.extend(self.one(fields, "not").map(Keyword::Not));
        if let Some(condition) = self.one(fields, "if") {
            let (then, otherwise) = (self.one(fields, "then"), self.one(fields, "else"));
            keywords.push(Keyword::If { condition, then, otherwise });
        }
        // These come last, since they depend on all others.
        keywords.extend(self.one(fields, "unevaluatedItems").map(Keyword::UnevaluatedItems));
        keywords.extend(self.one(fields, "unevaluatedProperties").map(Keyword::UnevaluatedProperties));
        Ok(())
    }

    fn id(&self, value: &Value) -> Option<NodeId> {
        self.locations.id(value)
    }

    /// The subschema of a keyword; `None` for a keyword that this draft does not know.
    fn one(&self, fields: Fields<'a>, keyword: &str) -> Option<NodeId> {
        self.id(fields.get(keyword)?)
    }

    fn many(&self, fields: Fields<'a>, keyword: &str) -> Option<Box<[NodeId]>> {
        fields.get(keyword)?.as_array()?.iter().map(|part| self.id(part)).collect()
    }

    fn named(&self, fields: Fields<'a>, keyword: &str) -> NamedNodes {
        let parts = fields.get(keyword).and_then(Value::as_object);
        let mut named: Vec<(Box<str>, NodeId)> = parts
            .into_iter()
            .flatten()
            .filter_map(|(name, part)| Some((name.as_str().into(), self.id(part)?)))
            .collect();
        named.sort_unstable();
        named.into()
    }

    /// The number of a pattern. Each pattern is compiled once.
    fn pattern(&mut self, source: &'a str) -> usize {
        *self.known.entry(source).or_insert_with(|| {
            self.patterns.push(source);
            self.patterns.len() - 1
        })
    }
}

/// The cost in steps of checking a keyword.
fn cost(keyword: &Keyword) -> usize {
    let text = |text: &str| 1 + text.len() / 32;
    1 + match keyword {
        Keyword::Enum(values) => values.iter().map(size).sum(),
        Keyword::Const(value) => size(value),
        Keyword::Required(names) => names.iter().map(|name| text(name)).sum(),
        Keyword::DependentRequired(all) => {
            all.iter().map(|(name, others)| text(name) + others.iter().map(|other| text(other)).sum::<usize>()).sum()
        }
        Keyword::DependentSchemas(named) | Keyword::Properties { named, .. } => {
            named.iter().map(|(name, _)| text(name)).sum()
        }
        Keyword::MultipleOf(..) => 20,
        _ => 0,
    }
}

fn read_types(types: &Value) -> Result<Types, String> {
    let add = |types: Types, name: &Value| {
        let added = name.as_str().and_then(|name| types.with(name));
        added.ok_or_else(|| format!("{name} is not a type"))
    };
    match types {
        Value::Array(names) if names.is_empty() => Err("`type` must not be empty".to_owned()),
        Value::Array(names) => names.iter().try_fold(Types::NONE, add),
        name => add(Types::NONE, name),
    }
}

fn number(fields: Fields<'_>, keyword: &str) -> Result<Option<Number>, String> {
    match fields.get(keyword) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.clone())),
        Some(_) => Err(format!("`{keyword}` must be a number")),
    }
}

fn count(fields: Fields<'_>, keyword: &str) -> Result<Option<u64>, String> {
    let Some(value) = fields.get(keyword) else { return Ok(None) };
    let whole = |float: &f64| float.fract() == 0.0 && *float >= 0.0;
    // The cast saturates: no real count is that large.
    let count = value.as_u64().or_else(|| value.as_f64().filter(whole).map(|float| float as u64));
    count.map(Some).ok_or_else(|| format!("`{keyword}` must be an integer from 0 on"))
}

fn names(keyword: &str, value: &Value) -> Result<Box<[Box<str>]>, String> {
    let names = value.as_array().and_then(|names| names.iter().map(|name| Some(name.as_str()?.into())).collect());
    names.ok_or_else(|| format!("`{keyword}` must be an array of strings"))
}
