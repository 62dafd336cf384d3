//! Checks a value against the nodes of a schema, within a number of steps.

mod message;

use ahash::HashSet;
use serde_json::{Map, Value};

use self::message::{Pointer, assertion, expected, show, unexpected};
use super::bounds::{BOUNDS, Steps, Stop};
use super::equal::are_unique;
use super::node::{Keyword, NamedNodes, Node, NodeId, Nodes};
use super::pattern::Machine;

/// How many violations are reported.
const SHOWN_VIOLATIONS: usize = 3;

/// Why a value does not fit, or why the check stopped.
#[derive(Debug)]
pub(super) enum Unfit {
    Violations(Vec<String>),
    Stopped(Stop),
}

pub(super) fn check(nodes: &Nodes, value: &Value, steps: &mut Steps) -> Result<(), Unfit> {
    let machine = Machine::default();
    let mut checker = Checker { nodes, steps, machine, nested: 0, mode: Mode::Telling, violations: Vec::new() };
    match checker.node(0, value, &Pointer::Root, None) {
        Ok(true) => Ok(()),
        Err(stop) if checker.violations.is_empty() => Err(Unfit::Stopped(stop)),
        Ok(false) | Err(_) => Err(Unfit::Violations(checker.violations)),
    }
}

/// Whether a value fits.
type Verdict = Result<bool, Stop>;

/// Where to note the parts of a value that are evaluated, if somebody needs to know.
type Evaluated<'a> = Option<&'a mut Seen>;

/// The evaluated parts of one value, by address. The value does not move meanwhile.
#[derive(Debug, Default)]
struct Seen {
    parts: HashSet<usize>,
    all: bool,
}

impl Seen {
    fn add(&mut self, part: &Value) {
        self.parts.insert(std::ptr::from_ref(part).addr());
    }

    fn has(&self, part: &Value) -> bool {
        self.all || self.parts.contains(&std::ptr::from_ref(part).addr())
    }
}

/// Whether violations are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A violation here is one of the whole value: report it, and look for more.
    Telling,
    /// A violation here may not matter: stop at the first one.
    Quiet,
}

struct Checker<'s> {
    nodes: &'s Nodes,
    steps: &'s mut Steps,
    machine: Machine,
    /// The number of nodes evaluated inside each other.
    nested: usize,
    mode: Mode,
    violations: Vec<String>,
}

/// The cost in steps of adding a part to `Seen`.
const SEEN_STEPS: usize = 4;
/// The cost in steps of wording a violation.
const TOLD_STEPS: usize = 1_000;

impl<'s> Checker<'s> {
    /// Whether a value fits a node. The evaluated parts are added to the caller's `seen`.
    fn node(&mut self, id: NodeId, value: &Value, place: &Pointer<'_>, seen: Evaluated<'_>) -> Verdict {
        let mut node = &self.nodes.nodes[id];
        while let Some(other) = node.alias() {
            self.steps.take(1)?;
            node = &self.nodes.nodes[other];
        }
        self.steps.take(node.cost)?;
        if self.nested == BOUNDS.nested {
            return Err(Stop::Nested);
        }
        self.nested += 1;
        let fits = if node.has_unevaluated {
            self.with_unevaluated(node, value, place, seen)?
        } else {
            self.keywords(node, value, place, seen)?
        };
        self.nested -= 1;
        Ok(fits)
    }

    /// Checks a node that must know which parts it has evaluated itself, without those of the nodes around it.
    fn with_unevaluated(&mut self, node: &'s Node, value: &Value, place: &Pointer<'_>, seen: Evaluated<'_>) -> Verdict {
        let mut own = Seen::default();
        let fits = self.keywords(node, value, place, Some(&mut own))?;
        self.merge(seen, own, fits)?;
        Ok(fits)
    }

    /// Adds what a subschema has evaluated, if the value fits it.
    fn merge(&mut self, seen: Evaluated<'_>, own: Seen, fits: bool) -> Result<(), Stop> {
        if let Some(seen) = seen.filter(|_| fits) {
            self.steps.take(SEEN_STEPS * own.parts.len())?;
            seen.all |= own.all;
            seen.parts.extend(own.parts);
        }
        Ok(())
    }

    fn keywords(&mut self, node: &'s Node, value: &Value, place: &Pointer<'_>, mut seen: Evaluated<'_>) -> Verdict {
        let mut fits = true;
        for keyword in &node.keywords {
            let depends = matches!(keyword, Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_));
            // If other keywords failed, unevaluated parts are not worth reporting.
            if (depends && !fits) || self.keyword(keyword, value, place, seen.as_deref_mut())? {
                continue;
            }
            if self.mode == Mode::Quiet {
                return Ok(false);
            }
            fits = false;
        }
        Ok(fits)
    }

    fn keyword(&mut self, keyword: &'s Keyword, value: &Value, place: &Pointer<'_>, seen: Evaluated<'_>) -> Verdict {
        match (keyword, value) {
            (Keyword::Properties { named, patterns, rest }, Value::Object(fields)) => {
                self.properties(named, patterns, *rest, fields, place, seen)
            }
            (Keyword::UnevaluatedProperties(node), Value::Object(fields)) => {
                self.unevaluated_properties(*node, fields, place, seen)
            }
            (Keyword::PropertyNames(node), Value::Object(fields)) => self.property_names(*node, fields, value, place),
            (Keyword::DependentSchemas(named), Value::Object(fields)) => {
                self.dependent_schemas(named, fields, value, place, seen)
            }
            (Keyword::Items { first, rest }, Value::Array(items)) => self.items(first, *rest, items, place, seen),
            (Keyword::UnevaluatedItems(node), Value::Array(items)) => self.unevaluated_items(*node, items, place, seen),
            (Keyword::Contains { node, least, most }, Value::Array(items)) => {
                self.contains(*node, *least, *most, value, items, place, seen)
            }
            (Keyword::UniqueItems, Value::Array(items)) => match are_unique(items, self.steps)? {
                true => Ok(true),
                false => self.violation(place, || format!("{} has non-unique elements", show(value))),
            },
            (Keyword::Pattern(pattern), Value::String(text)) => match self.matches(*pattern, text)? {
                true => Ok(true),
                false => {
                    let pattern = self.nodes.patterns[*pattern].source();
                    self.violation(place, || format!("{} does not match {}", show(value), show(&pattern.into())))
                }
            },
            (Keyword::Reference(node), _) => self.node(*node, value, place, seen),
            (Keyword::AllOf(nodes), _) => self.all_of(nodes, value, place, seen),
            (Keyword::AnyOf(nodes), _) => self.any_of(nodes, value, place, seen),
            (Keyword::OneOf(nodes), _) => self.one_of(nodes, value, place, seen),
            (Keyword::Not(node), _) => match self.quietly(*node, value, None)? {
                false => Ok(true),
                true => self.violation(place, || format!("{} is not allowed", show(value))),
            },
            (Keyword::If { condition, then, otherwise }, _) => {
                self.condition(*condition, [*then, *otherwise], value, place, seen)
            }
            _ => {
                if let (Keyword::MinLength(_) | Keyword::MaxLength(_), Value::String(text)) = (keyword, value) {
                    self.steps.read(text.len())?;
                }
                if let (Keyword::Required(names), Value::Object(fields)) = (keyword, value) {
                    self.steps.take(lookups(names.len(), fields))?;
                }
                match assertion(keyword, value) {
                    true => Ok(true),
                    false => self.violation(place, || expected(keyword, value)),
                }
            }
        }
    }

    /// Whether a value fits a node, without reporting violations.
    fn quietly(&mut self, id: NodeId, value: &Value, seen: Evaluated<'_>) -> Verdict {
        let mode = std::mem::replace(&mut self.mode, Mode::Quiet);
        let fits = self.node(id, value, &Pointer::Root, seen)?;
        self.mode = mode;
        Ok(fits)
    }

    /// The same, and adds what the node has evaluated if the value fits.
    fn tried(&mut self, id: NodeId, value: &Value, seen: Evaluated<'_>) -> Verdict {
        let Some(seen) = seen else { return self.quietly(id, value, None) };
        let mut own = Seen::default();
        let fits = self.quietly(id, value, Some(&mut own))?;
        self.merge(Some(seen), own, fits)?;
        Ok(fits)
    }

    #[cold]
    fn violation(&mut self, place: &Pointer<'_>, message: impl FnOnce() -> String) -> Verdict {
        if self.mode == Mode::Telling {
            self.steps.take(TOLD_STEPS)?;
            let violation = format!("{place}: {}", message());
            // Several branches of a schema may report the same violation.
            if !self.violations.contains(&violation) {
                self.violations.push(violation);
            }
            if self.violations.len() == SHOWN_VIOLATIONS {
                return Err(Stop::Enough);
            }
        }
        Ok(false)
    }

    fn matches(&mut self, pattern: usize, text: &str) -> Verdict {
        self.nodes.patterns[pattern].matches(text, &mut self.machine, self.steps)
    }

    fn all_of(&mut self, nodes: &[NodeId], value: &Value, place: &Pointer<'_>, mut seen: Evaluated<'_>) -> Verdict {
        let mut fits = true;
        for node in nodes {
            fits &= self.node(*node, value, place, seen.as_deref_mut())?;
            if !fits && self.mode == Mode::Quiet {
                break;
            }
        }
        Ok(fits)
    }

    fn any_of(&mut self, nodes: &[NodeId], value: &Value, place: &Pointer<'_>, mut seen: Evaluated<'_>) -> Verdict {
        let mut fits = false;
        for node in nodes {
            fits |= self.tried(*node, value, seen.as_deref_mut())?;
            // Every branch that fits counts for what has been evaluated.
            if fits && seen.is_none() {
                break;
            }
        }
        let message = || format!("{} is not valid under any of the schemas listed in the 'anyOf' keyword", show(value));
        if fits { Ok(true) } else { self.violation(place, message) }
    }

    fn one_of(&mut self, nodes: &[NodeId], value: &Value, place: &Pointer<'_>, mut seen: Evaluated<'_>) -> Verdict {
        let mut fitting = 0;
        for node in nodes {
            fitting += usize::from(self.tried(*node, value, seen.as_deref_mut())?);
            if fitting > 1 {
                break;
            }
        }
        let how_many = match fitting {
            0 => "any",
            1 => return Ok(true),
            _ => "more than one",
        };
        let not = if fitting == 0 { "not " } else { "" };
        self.violation(place, || {
            format!("{} is {not}valid under {how_many} of the schemas listed in the 'oneOf' keyword", show(value))
        })
    }

    fn condition(
        &mut self,
        condition: NodeId,
        [then, otherwise]: [Option<NodeId>; 2],
        value: &Value,
        place: &Pointer<'_>,
        mut seen: Evaluated<'_>,
    ) -> Verdict {
        let branch = if self.tried(condition, value, seen.as_deref_mut())? { then } else { otherwise };
        branch.map_or(Ok(true), |branch| self.node(branch, value, place, seen))
    }

    fn dependent_schemas(
        &mut self,
        named: &NamedNodes,
        fields: &Map<String, Value>,
        value: &Value,
        place: &Pointer<'_>,
        mut seen: Evaluated<'_>,
    ) -> Verdict {
        self.steps.take(lookups(named.len(), fields))?;
        let mut fits = true;
        for (_, node) in named.iter().filter(|(name, _)| fields.contains_key(&**name)) {
            fits &= self.node(*node, value, place, seen.as_deref_mut())?;
        }
        Ok(fits)
    }

    fn properties(
        &mut self,
        named: &NamedNodes,
        patterns: &[(usize, NodeId)],
        rest: Option<NodeId>,
        fields: &Map<String, Value>,
        place: &Pointer<'_>,
        mut seen: Evaluated<'_>,
    ) -> Verdict {
        self.steps.take(lookups(named.len(), fields))?;
        let mut fits = true;
        for (name, node) in named {
            let Some(part) = fields.get(&**name) else { continue };
            self.see(part, &mut seen)?;
            fits &= self.node(*node, part, &Pointer::Name(place, name), None)?;
            if !fits && self.mode == Mode::Quiet {
                return Ok(false);
            }
        }
        if patterns.is_empty() && rest.is_none() {
            return Ok(fits);
        }
        let mut strangers = Vec::new();
        for (name, part) in fields {
            self.steps.read(name.len())?;
            self.steps.take(1 + named.len().checked_ilog2().unwrap_or(0) as usize)?;
            let mut is_known = named.binary_search_by(|(known, _)| (**known).cmp(name)).is_ok();
            for (pattern, node) in patterns {
                if self.matches(*pattern, name)? {
                    is_known = true;
                    self.see(part, &mut seen)?;
                    fits &= self.node(*node, part, &Pointer::Name(place, name), None)?;
                }
            }
            if let Some(rest) = rest.filter(|_| !is_known) {
                self.see(part, &mut seen)?;
                if !self.is_never(rest) {
                    fits &= self.node(rest, part, &Pointer::Name(place, name), None)?;
                } else {
                    fits = false;
                    strangers.push(name.as_str());
                }
            }
            if !fits && self.mode == Mode::Quiet {
                return Ok(false);
            }
        }
        if strangers.is_empty() {
            return Ok(fits);
        }
        self.violation(place, || unexpected("Additional properties", &strangers))
    }

    fn unevaluated_properties(
        &mut self,
        node: NodeId,
        fields: &Map<String, Value>,
        place: &Pointer<'_>,
        seen: Evaluated<'_>,
    ) -> Verdict {
        let Some(seen) = seen else { return Ok(true) };
        let mut fits = true;
        let mut strangers = Vec::new();
        self.steps.take(fields.len())?;
        for (name, part) in fields.iter().filter(|(_, part)| !seen.has(part)) {
            if !self.is_never(node) {
                fits &= self.node(node, part, &Pointer::Name(place, name), None)?;
            } else {
                strangers.push(name.as_str());
            }
        }
        seen.all = true;
        if strangers.is_empty() {
            return Ok(fits);
        }
        self.violation(place, || unexpected("Unevaluated properties", &strangers))
    }

    fn property_names(
        &mut self,
        node: NodeId,
        fields: &Map<String, Value>,
        value: &Value,
        place: &Pointer<'_>,
    ) -> Verdict {
        for name in fields.keys() {
            self.steps.read(name.len())?;
            if !self.quietly(node, &Value::String(name.clone()), None)? {
                let name = Value::String(name.clone());
                return self
                    .violation(place, || format!("{} is not allowed as a name in {}", show(&name), show(value)));
            }
        }
        Ok(true)
    }

    fn items(
        &mut self,
        first: &[NodeId],
        rest: Option<NodeId>,
        items: &[Value],
        place: &Pointer<'_>,
        mut seen: Evaluated<'_>,
    ) -> Verdict {
        let nodes = first.iter().map(|node| Some(*node)).chain(std::iter::repeat(rest));
        let mut fits = true;
        for ((index, item), node) in items.iter().enumerate().zip(nodes) {
            let Some(node) = node else { break };
            self.see(item, &mut seen)?;
            if index >= first.len() && self.is_never(node) {
                return self
                    .violation(place, || format!("Additional items are not allowed ({} was unexpected)", show(item)));
            }
            fits &= self.node(node, item, &Pointer::Item(place, index), None)?;
            if !fits && self.mode == Mode::Quiet {
                break;
            }
        }
        Ok(fits)
    }

    fn unevaluated_items(
        &mut self,
        node: NodeId,
        items: &[Value],
        place: &Pointer<'_>,
        seen: Evaluated<'_>,
    ) -> Verdict {
        let Some(seen) = seen else { return Ok(true) };
        let mut fits = true;
        self.steps.take(items.len())?;
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !seen.has(item)) {
            if self.is_never(node) {
                return self
                    .violation(place, || format!("Unevaluated items are not allowed ({} was unexpected)", show(item)));
            }
            fits &= self.node(node, item, &Pointer::Item(place, index), None)?;
        }
        seen.all = true;
        Ok(fits)
    }

    #[expect(clippy::too_many_arguments, reason = "they are those of the keyword and of every other")]
    fn contains(
        &mut self,
        node: NodeId,
        least: u64,
        most: Option<u64>,
        value: &Value,
        items: &[Value],
        place: &Pointer<'_>,
        mut seen: Evaluated<'_>,
    ) -> Verdict {
        let mut found = 0;
        for item in items {
            if self.quietly(node, item, None)? {
                found += 1;
                self.see(item, &mut seen)?;
            }
            let is_known = if most.is_none() { found >= least } else { most.is_some_and(|most| found > most) };
            if is_known && seen.is_none() {
                break;
            }
        }
        if found < least {
            let few = if found == 0 { "None" } else { "Too few items" };
            return self.violation(place, || format!("{few} of {} are valid under the given schema", show(value)));
        }
        if most.is_some_and(|most| found > most) {
            return self
                .violation(place, || format!("Too many items of {} are valid under the given schema", show(value)));
        }
        Ok(true)
    }

    fn is_never(&self, id: NodeId) -> bool {
        matches!(&*self.nodes.nodes[id].keywords, [Keyword::Never])
    }

    /// Notes that a part was evaluated, if the caller needs to know.
    fn see(&mut self, part: &Value, seen: &mut Option<&mut Seen>) -> Result<(), Stop> {
        if let Some(seen) = seen {
            self.steps.take(SEEN_STEPS)?;
            seen.add(part);
        }
        Ok(())
    }
}

/// The cost in steps of looking up this many names, besides reading them.
fn lookups(names: usize, fields: &Map<String, Value>) -> usize {
    names * fields.len().checked_ilog2().unwrap_or(0) as usize / 2
}
