//! How often a schema may examine one value of a payload, computed before any payload comes.
//!
//! A schema is a graph: subschemas apply others to the same value (`anyOf`, `$ref`, `if` …) or to a
//! value within it (`properties`, `items` …). Where two paths lead to the same value, the work
//! doubles. Where that happens in every round of a recursion or on every level of a chain, the work
//! is exponential. Such a schema is refused when it is set, while its author can still fix it.
//!
//! The bound errs on the side of refusal: it does not know which alternatives exclude each other.
//! Schemas that pass are still metered (`meter.rs`).

use super::{meter::Rates, problems::pointer_below};
use engine::FieldProblem;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    mem, ptr,
};

/// How many subschemas may be applied to one value of a payload.
const SUBSCHEMAS_PER_VALUE_MAX: u64 = 10_000;
/// How many references and combinations may follow one another at one value.
const CHAIN_MAX: usize = 200;
/// The most nodes that `unevaluatedProperties` and `unevaluatedItems` may unfold to when a schema
/// is compiled.
const UNEVALUATED_MAX: u64 = 100_000;

/// The most targets of all references together, counting every candidate where a target is
/// ambiguous.
const TARGETS_MAX: usize = 20_000;

/// The most states of a pattern; its size is also bounded when it is compiled.
const REPETITIONS_MAX: u64 = 50_000;

/// The cost of a schema per value, or why it costs too much.
pub(super) fn rates(schema: &Value) -> Result<Rates, FieldProblem> {
    let graph = Graph::of(schema)?;
    let chains = graph.check_chains()?;
    graph.check_values(&chains)?;
    let subschemas = chains.unfolded.iter().copied().max().unwrap_or(1);
    Ok(Rates {
        value: 1 + subschemas / 16,
        name: 1 + graph.patterns_max as u64 / 2,
        text: 1 + graph.repetitions_max / 4,
    })
}

/// The values within a value to which a subschema is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selector<'s> {
    /// The field of this name.
    Field(&'s str),
    /// Fields of any name.
    Fields,
    /// Fields that this subschema's own `properties` do not name.
    OtherFields,
    /// The item at this index.
    Item(usize),
    /// All items.
    Items,
    /// Items that this subschema's own list does not name.
    OtherItems,
    /// The names of fields.
    Names,
}

struct Subschema<'s> {
    fields: &'s Map<String, Value>,
    schema: &'s Value,
    pointer: String,
    /// Edges to subschemas of the same value. An edge has one real target, but for a dynamic
    /// reference only the run shows which.
    same_value: Vec<Vec<usize>>,
    /// Edges to subschemas of values within.
    inner_values: Vec<(Selector<'s>, Vec<usize>)>,
}

#[derive(Default)]
struct Graph<'s> {
    subschemas: Vec<Subschema<'s>>,
    indexes: HashMap<*const Value, usize>,
    /// The first one is the whole schema.
    resources: Vec<Resource<'s>>,
    /// The innermost resource around each object.
    resource_of: HashMap<*const Value, usize>,
    anchors: Vec<Anchor<'s>>,
    targets: usize,
    patterns_max: usize,
    repetitions_max: u64,
}

/// A part of the schema with an address of its own. Drafts differ in which keyword gives an address
/// and where. So each candidate may turn out to be no resource; its contents then belong to the
/// resource around it.
struct Resource<'s> {
    id: &'s str,
    schema: &'s Value,
    parent: Option<usize>,
}

impl Resource<'_> {
    /// Whether a reference to `base` may mean it, whatever address it is relative to. Equal
    /// addresses end with the same name.
    fn may_be(&self, base: &str) -> bool {
        match (last_name(self.id), last_name(base)) {
            // Without a keyword for its address, the whole schema has an address without a name.
            _ if self.parent.is_none() => last_name(base).is_none(),
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            (None, _) | (_, None) => true,
        }
    }
}

/// The last name of an address; `None` where the same address can be written with another name.
fn last_name(address: &str) -> Option<&str> {
    let name = address.rsplit(['/', ':']).next().unwrap_or_default();
    let is_host = address.rsplit_once('/').is_some_and(|(before, _)| before.ends_with('/'));
    let is_plain = !is_host && !address.contains(['?', '%', '\\']);
    (is_plain && !["", ".", ".."].contains(&name)).then_some(name)
}

struct Anchor<'s> {
    name: &'s str,
    is_dynamic: bool,
    schema: &'s Value,
}

/// For each subschema, what it leads to at one value.
struct Chains {
    /// How many subschemas it unfolds to, itself included.
    unfolded: Vec<u64>,
    /// The subschemas that it leads to, each with the number of paths to it.
    path_counts: Vec<BTreeMap<usize, u64>>,
}

impl<'s> Graph<'s> {
    fn of(schema: &'s Value) -> Result<Self, FieldProblem> {
        let mut graph = Graph::default();
        graph.resources.push(Resource { id: "", schema, parent: None });
        graph.note_names(schema, 0);
        graph.add_subschema(schema, String::new());
        let mut next = 0;
        while next < graph.subschemas.len() {
            graph.connect(next)?;
            next += 1;
        }
        Ok(graph)
    }

    /// Notes everything that references may name, at any depth.
    fn note_names(&mut self, schema: &'s Value, mut resource: usize) {
        match schema {
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                for id in [text("$id"), text("id")].into_iter().flatten() {
                    let (id, name) = id.split_once('#').unwrap_or((id, ""));
                    if !name.is_empty() {
                        self.note_anchor(name, false, schema);
                    }
                    if !id.is_empty() {
                        self.resources.push(Resource { id, schema, parent: Some(resource) });
                        resource = self.resources.len() - 1;
                    }
                }
                self.resource_of.insert(ptr::from_ref(schema), resource);
                if let Some(name) = text("$anchor") {
                    self.note_anchor(name, false, schema);
                }
                if let Some(name) = text("$dynamicAnchor") {
                    self.note_anchor(name, true, schema);
                }
                if fields.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                    self.note_anchor("", true, schema);
                }
                fields.values().for_each(|inner| self.note_names(inner, resource));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.note_names(inner, resource)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn note_anchor(&mut self, name: &'s str, is_dynamic: bool, schema: &'s Value) {
        self.anchors.push(Anchor { name, is_dynamic, schema });
    }

    /// The number of the subschema `schema`; `None` for `true` and `false`, which cost nothing.
    fn add_subschema(&mut self, schema: &'s Value, pointer: String) -> Option<usize> {
        let fields = schema.as_object()?;
        let address = ptr::from_ref(schema);
        if let Some(index) = self.indexes.get(&address) {
            return Some(*index);
        }
        self.indexes.insert(address, self.subschemas.len());
        let (same_value, inner_values) = (Vec::new(), Vec::new());
        self.subschemas.push(Subschema { fields, schema, pointer, same_value, inner_values });
        Some(self.subschemas.len() - 1)
    }

    /// Adds all edges that begin at the subschema `from`.
    fn connect(&mut self, from: usize) -> Result<(), FieldProblem> {
        for (keyword, value) in self.subschemas[from].fields {
            self.apply_keyword(from, keyword, value)?;
        }
        Ok(())
    }

    fn apply_keyword(
        &mut self,
        from: usize,
        keyword: &str,
        value: &'s Value,
    ) -> Result<(), FieldProblem> {
        let pointer = pointer_below(&self.subschemas[from].pointer, keyword);
        match keyword {
            "not" | "if" | "then" | "else" | "contentSchema" => {
                self.apply(from, None, value, pointer)
            }
            "allOf" | "anyOf" | "oneOf" => self.apply_each(from, |_| None, value, &pointer),
            "dependentSchemas" | "dependencies" => {
                self.apply_named(from, |_| None, value, &pointer)
            }
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                self.apply_reference(from, keyword, value, pointer)?
            }
            "properties" => {
                self.apply_named(from, |name| Some(Selector::Field(name)), value, &pointer)
            }
            "patternProperties" => {
                let patterns = value.as_object().into_iter().flatten().map(|(pattern, _)| pattern);
                self.patterns_max = self.patterns_max.max(patterns.clone().count());
                patterns.for_each(|pattern| self.note_pattern(pattern));
                self.apply_named(from, |_| Some(Selector::Fields), value, &pointer);
            }
            "additionalProperties" | "unevaluatedProperties" => {
                self.apply(from, Some(Selector::OtherFields), value, pointer);
            }
            "pattern" => self.note_pattern(value.as_str().unwrap_or_default()),
            "propertyNames" => self.apply(from, Some(Selector::Names), value, pointer),
            "prefixItems" => self.apply_each(from, |i| Some(Selector::Item(i)), value, &pointer),
            "items" if value.is_array() => {
                self.apply_each(from, |i| Some(Selector::Item(i)), value, &pointer);
            }
            "items" | "additionalItems" | "unevaluatedItems" => {
                self.apply(from, Some(Selector::OtherItems), value, pointer);
            }
            "contains" => self.apply(from, Some(Selector::Items), value, pointer),
            _ => {}
        }
        Ok(())
    }

    /// Counted repetitions multiply where they nest. All of them are multiplied, although some only
    /// follow one another.
    fn note_pattern(&mut self, pattern: &str) {
        let counts = pattern.split('{').skip(1).filter_map(|after| {
            let (count, _) = after.split_once('}')?;
            count.split(',').filter_map(|number| number.trim().parse::<u64>().ok()).max()
        });
        let repetitions = counts.fold(1_u64, |product, count| product.saturating_mul(count.max(1)));
        self.repetitions_max = self.repetitions_max.max(repetitions.min(REPETITIONS_MAX));
    }

    fn apply(
        &mut self,
        from: usize,
        selector: Option<Selector<'s>>,
        schema: &'s Value,
        pointer: String,
    ) {
        let Some(to) = self.add_subschema(schema, pointer) else { return };
        match selector {
            None => self.subschemas[from].same_value.push(vec![to]),
            Some(selector) => self.subschemas[from].inner_values.push((selector, vec![to])),
        }
    }

    fn apply_each(
        &mut self,
        from: usize,
        selector: impl Fn(usize) -> Option<Selector<'s>>,
        schemas: &'s Value,
        pointer: &str,
    ) {
        for (index, schema) in schemas.as_array().into_iter().flatten().enumerate() {
            self.apply(from, selector(index), schema, format!("{pointer}/{index}"));
        }
    }

    fn apply_named(
        &mut self,
        from: usize,
        selector: impl Fn(&'s str) -> Option<Selector<'s>>,
        schemas: &'s Value,
        pointer: &str,
    ) {
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            self.apply(from, selector(name), schema, pointer_below(pointer, name));
        }
    }

    /// Adds an edge to every possible target of a reference, because the validator may take any of
    /// them.
    fn apply_reference(
        &mut self,
        from: usize,
        keyword: &str,
        reference: &Value,
        pointer: String,
    ) -> Result<(), FieldProblem> {
        let Some(reference) = reference.as_str() else { return Ok(()) };
        let (base, fragment) = match reference.strip_prefix('#') {
            Some(fragment) => ("", fragment),
            None => reference.rsplit_once('#').unwrap_or((reference, "")),
        };
        // Decoded as the validator does: a character that is no escape stands for itself.
        let decoded = percent_decode_str(fragment).decode_utf8_lossy();
        let mut targets: Vec<&'s Value> = Vec::new();
        if fragment.is_empty() || fragment.starts_with('/') {
            let resources = self.possible_resources(from, base).into_iter();
            targets
                .extend(resources.filter_map(|resource| pointer_target(resource.schema, &decoded)));
        }
        if !fragment.is_empty() || keyword != "$ref" {
            let is_named = |name: &str| name == fragment || name == decoded;
            let anchors = self.anchors.iter().filter(|anchor| is_named(anchor.name));
            targets.extend(anchors.map(|anchor| anchor.schema));
        }
        if is_meta_schema(base) {
            // The validator has this schema built in, and it leads back to the schemas that extend
            // it.
            let extending = self.anchors.iter().filter(|anchor| anchor.is_dynamic);
            targets.extend(extending.map(|anchor| anchor.schema));
        } else if targets.is_empty() {
            let detail =
                "must lead to a place within the schema: nothing is fetched from elsewhere";
            return Err(FieldProblem::new("schema", detail).within(pointer));
        }
        let mut indexes: Vec<usize> =
            targets.into_iter().filter_map(|to| self.add_subschema(to, pointer.clone())).collect();
        indexes.sort_unstable();
        indexes.dedup();
        self.targets += indexes.len();
        if self.targets > TARGETS_MAX {
            let detail = "is one of too many references that may each mean many places";
            return Err(FieldProblem::new("schema", detail).within(pointer));
        }
        if !indexes.is_empty() {
            self.subschemas[from].same_value.push(indexes);
        }
        Ok(())
    }

    /// The resources that a reference to `base` may mean. Without a name, these are the resources
    /// around it, and others with the same address.
    fn possible_resources(&self, from: usize, base: &str) -> Vec<&Resource<'s>> {
        if !base.is_empty() {
            return self.resources.iter().filter(|resource| resource.may_be(base)).collect();
        }
        let own = ptr::from_ref(self.subschemas[from].schema);
        let innermost = self.resource_of.get(&own).copied();
        let mut ancestors: Vec<&Resource<'s>> = Vec::new();
        let mut next = Some(innermost.unwrap_or_default());
        while let Some(resource) = next {
            ancestors.push(&self.resources[resource]);
            next = self.resources[resource].parent;
        }
        let named = || ancestors.iter().filter(|ancestor| ancestor.parent.is_some());
        let is_same = |resource: &&Resource<'s>| {
            let is_nameless = last_name(resource.id).is_none();
            resource.parent.is_some()
                && (is_nameless || named().any(|ancestor| resource.may_be(ancestor.id)))
        };
        let same_address: Vec<&Resource<'s>> = self.resources.iter().filter(is_same).collect();
        ancestors.into_iter().chain(same_address).collect()
    }

    /// Follows the edges to subschemas of the same value.
    fn check_chains(&self) -> Result<Chains, FieldProblem> {
        let count = self.subschemas.len();
        let same_value = |index: usize| self.subschemas[index].same_value.iter().flatten().copied();
        let components = Components::of(count, same_value);
        let mut chains =
            Chains { unfolded: vec![1; count], path_counts: vec![BTreeMap::new(); count] };
        let mut depths = vec![1_usize; count];
        for members in components.members.iter() {
            let component = components.of[members[0]];
            let outside = |to: &usize| components.of[*to] != component;
            let (mut unfolded, mut depth, mut path_counts) = (0_u64, 0, BTreeMap::new());
            for member in members {
                unfolded = unfolded.saturating_add(1);
                add(&mut path_counts, *member, 1);
                let edges = &self.subschemas[*member].same_value;
                if edges.iter().filter(|edge| !edge.iter().all(outside)).count() > 1 {
                    return Err(self.branching(*member));
                }
                for edge in edges {
                    let out = || edge.iter().filter(|to| outside(to)).copied();
                    let most = out().map(|to| chains.unfolded[to]).max().unwrap_or_default();
                    unfolded = unfolded.saturating_add(most);
                    depth = depth.max(out().map(|to| depths[to]).max().unwrap_or_default());
                    let mut paths: BTreeMap<usize, u64> = BTreeMap::new();
                    for (index, count) in out().flat_map(|to| &chains.path_counts[to]) {
                        let most = paths.entry(*index).or_default();
                        *most = (*most).max(*count);
                    }
                    paths
                        .into_iter()
                        .for_each(|(index, paths)| add(&mut path_counts, index, paths));
                }
                // Before the next term is added: the sums must not overflow.
                if unfolded > SUBSCHEMAS_PER_VALUE_MAX {
                    return Err(self.too_many(*member));
                }
            }
            let depth = depth + members.len();
            if depth > CHAIN_MAX {
                let detail = format!(
                    "leads through more than {CHAIN_MAX} references and combinations at one value"
                );
                return Err(self.problem(members[0], detail));
            }
            for member in members {
                chains.unfolded[*member] = unfolded;
                depths[*member] = depth;
                chains.path_counts[*member].clone_from(&path_counts);
            }
        }
        let has_unevaluated = |index: &usize| {
            let fields = self.subschemas[*index].fields;
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|of| fields.contains_key(*of))
        };
        let unevaluated = (0..count).filter(has_unevaluated);
        if unevaluated.map(|index| chains.unfolded[index]).sum::<u64>() > UNEVALUATED_MAX {
            let detail = "has unevaluatedProperties or unevaluatedItems over too many subschemas";
            return Err(FieldProblem::new("schema", detail));
        }
        Ok(chains)
    }

    /// Follows the edges to values within, round after round.
    fn check_values(&self, chains: &Chains) -> Result<(), FieldProblem> {
        let count = self.subschemas.len();
        let all = |index: usize| {
            let subschema = &self.subschemas[index];
            let inner_values = subschema.inner_values.iter().flat_map(|(_, to)| to);
            subschema.same_value.iter().flatten().chain(inner_values).copied()
        };
        let components = Components::of(count, all);
        let mut per_value = chains.unfolded.clone();
        for members in components.members.iter() {
            let component = components.of[members[0]];
            let mut most = 0;
            for member in members {
                let mut demand = Demand::default();
                for (index, paths) in &chains.path_counts[*member] {
                    let subschema = &self.subschemas[*index];
                    for (selector, to) in &subschema.inner_values {
                        let rounds = to.iter().any(|to| components.of[*to] == component);
                        let out = to.iter().filter(|to| components.of[**to] != component);
                        let subschemas = out.map(|to| per_value[*to]).max().unwrap_or_default();
                        let load = CostLoad {
                            subschemas: subschemas.saturating_mul(*paths),
                            rounds: u64::from(rounds).saturating_mul(*paths),
                        };
                        demand.add(*selector, subschema.fields, load);
                    }
                }
                let highest = demand.highest();
                if highest.rounds > 1 {
                    return Err(self.branching(*member));
                }
                most = most.max(highest.subschemas).max(chains.unfolded[*member]);
                if most > SUBSCHEMAS_PER_VALUE_MAX {
                    return Err(self.too_many(*member));
                }
            }
            members.iter().for_each(|member| per_value[*member] = most);
        }
        Ok(())
    }

    fn branching(&self, index: usize) -> FieldProblem {
        let detail = "leads back to itself in more than one way for the same value, so that the time \
                      to check a payload doubles with each of its levels; let one alternative recurse, \
                      or tell them apart before (by separate properties)";
        self.problem(index, detail)
    }

    fn too_many(&self, index: usize) -> FieldProblem {
        let detail = format!(
            "asks more than {SUBSCHEMAS_PER_VALUE_MAX} subschemas about one value of a payload"
        );
        self.problem(index, detail)
    }

    fn problem(&self, index: usize, detail: impl Into<String>) -> FieldProblem {
        FieldProblem::new("schema", detail).within(self.subschemas[index].pointer.as_str())
    }
}

fn add(counts: &mut BTreeMap<usize, u64>, index: usize, more: u64) {
    let count = counts.entry(index).or_default();
    *count = count.saturating_add(more);
}

/// The load of one value within.
#[derive(Clone, Copy, Default)]
struct CostLoad {
    subschemas: u64,
    /// How often the recursion goes on there.
    rounds: u64,
}

impl CostLoad {
    fn and(self, other: CostLoad) -> CostLoad {
        CostLoad {
            subschemas: self.subschemas.saturating_add(other.subschemas),
            rounds: self.rounds.saturating_add(other.rounds),
        }
    }

    fn or(self, other: CostLoad) -> CostLoad {
        CostLoad {
            subschemas: self.subschemas.max(other.subschemas),
            rounds: self.rounds.max(other.rounds),
        }
    }
}

/// The load of the values within one value, over all subschemas of that value.
#[derive(Default)]
struct Demand<'s> {
    fields: Loads<&'s str, &'s Map<String, Value>>,
    items: Loads<usize, usize>,
    names: CostLoad,
}

/// The load of the fields, or of the items.
struct Loads<K, O> {
    named: BTreeMap<K, CostLoad>,
    all: CostLoad,
    /// The load of all that the subschema itself does not name.
    others: Vec<(O, CostLoad)>,
}

impl<K, O> Default for Loads<K, O> {
    fn default() -> Self {
        Loads { named: BTreeMap::new(), all: CostLoad::default(), others: Vec::new() }
    }
}

impl<K: Ord, O> Loads<K, O> {
    fn add_named(&mut self, key: K, load: CostLoad) {
        let sum = self.named.entry(key).or_default();
        *sum = sum.and(load);
    }

    /// The highest load of any one field or item. `names` tells which keys a subschema names.
    fn highest(&self, names: impl Fn(&O, &K) -> bool) -> CostLoad {
        let sum = |load: CostLoad, key: Option<&K>| {
            let others =
                self.others.iter().filter(|(of, _)| !key.is_some_and(|key| names(of, key)));
            others.fold(load.and(self.all), |sum, (_, load)| sum.and(*load))
        };
        let unnamed = sum(CostLoad::default(), None);
        self.named.iter().fold(unnamed, |highest, (key, load)| highest.or(sum(*load, Some(key))))
    }
}

impl<'s> Demand<'s> {
    fn add(&mut self, selector: Selector<'s>, of: &'s Map<String, Value>, load: CostLoad) {
        match selector {
            Selector::Field(name) => self.fields.add_named(name, load),
            Selector::Fields => self.fields.all = self.fields.all.and(load),
            Selector::OtherFields => self.fields.others.push((of, load)),
            Selector::Item(index) => self.items.add_named(index, load),
            Selector::Items => self.items.all = self.items.all.and(load),
            Selector::OtherItems => {
                let list = |keyword: &str| of.get(keyword).and_then(Value::as_array).map(Vec::len);
                let placed = list("prefixItems").or(list("items")).unwrap_or_default();
                self.items.others.push((placed, load));
            }
            Selector::Names => self.names = self.names.and(load),
        }
    }

    /// The highest load of any one value.
    fn highest(&self) -> CostLoad {
        let fields = self.fields.highest(|of, name| {
            let properties = of.get("properties").and_then(Value::as_object);
            properties.is_some_and(|properties| properties.contains_key(*name))
        });
        let items = self.items.highest(|placed, index| index < placed);
        self.names.or(fields).or(items)
    }
}

/// The strongly connected components of a graph (Kosaraju, without recursion: a schema of 64 KiB
/// can be a chain of thousands).
struct Components {
    /// The component of each node.
    of: Vec<usize>,
    /// The nodes of each component; the components that one leads to come before it.
    members: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Enter,
    Leave,
}

impl Components {
    fn of<E: Iterator<Item = usize>>(count: usize, edges: impl Fn(usize) -> E) -> Self {
        let mut back: Vec<Vec<usize>> = vec![Vec::new(); count];
        for from in 0..count {
            edges(from).for_each(|to| back[to].push(from));
        }
        let mut seen = vec![false; count];
        // Walked against the edges: no remaining node leads to the one that is finished last.
        let mut finished = Vec::with_capacity(count);
        for start in 0..count {
            let mut path = vec![(start, Visit::Enter)];
            while let Some((index, visit)) = path.pop() {
                if visit == Visit::Leave {
                    finished.push(index);
                } else if !mem::replace(&mut seen[index], true) {
                    path.push((index, Visit::Leave));
                    path.extend(back[index].iter().rev().map(|to| (*to, Visit::Enter)));
                }
            }
        }
        let mut of = vec![usize::MAX; count];
        let mut members: Vec<Vec<usize>> = Vec::new();
        for start in finished.into_iter().rev() {
            if of[start] != usize::MAX {
                continue;
            }
            let (component, mut stack, mut component_members) =
                (members.len(), vec![start], Vec::new());
            of[start] = component;
            while let Some(index) = stack.pop() {
                component_members.push(index);
                for to in edges(index) {
                    if of[to] == usize::MAX {
                        of[to] = component;
                        stack.push(to);
                    }
                }
            }
            members.push(component_members);
        }
        Components { of, members }
    }
}

/// Whether the validator has the schema built in.
fn is_meta_schema(base: &str) -> bool {
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
}

/// The target of a pointer, as the validator resolves it: it accepts an index with leading zeros. A
/// pointer with a bad escape has no target.
fn pointer_target<'s>(schema: &'s Value, pointer: &str) -> Option<&'s Value> {
    let is_proper = |name: &str| name.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    pointer.split('/').skip(1).try_fold(schema, |value, name| match value.as_array() {
        Some(items) => items.get(name.parse::<usize>().ok()?),
        None if is_proper(name) => value.get(name.replace("~1", "/").replace("~0", "~")),
        None => None,
    })
}
