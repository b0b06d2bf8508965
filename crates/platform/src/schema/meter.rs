//! Stops a check that costs too much.
//!
//! The validator has no limit of its own and cannot be interrupted. But every keyword reads the
//! payload through a representation, which can be ours: [`Metered`] counts these reads, and unwinds
//! out of the validator when the budget is spent or the stack is too deep.

#[cfg(not(panic = "unwind"))]
compile_error!(
    "a check that costs too much is stopped by unwinding: with panic = \"abort\", a payload could end \
     the process"
);

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp, unique};
use serde_json::{Map, Number, Value};
use std::{
    borrow::Cow,
    cell::Cell,
    iter,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr, slice,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Reads of the payload, weighted by the work behind each.
    pub(crate) steps: u64,
    /// Bytes of stack below the frame that begins the check.
    pub(crate) stack_bytes: usize,
}

/// The cost of one read with the schema at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rates {
    /// For one visited value: the validator may pass many subschemas without a read.
    pub(super) value: u64,
    /// For one field name: it is matched against every pattern of the schema.
    pub(super) name: u64,
    /// A factor for text: a pattern with counted repetitions reads each letter many times.
    pub(super) text: u64,
}

/// The budget is spent, so it is unknown whether the payload is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Runs `check`, and stops it when it costs more than `budget`. Deducts what it used.
pub(super) fn within<T>(
    budget: &mut Budget,
    rates: Rates,
    check: impl FnOnce() -> T,
) -> Result<T, Exhausted> {
    METER.with(|meter| {
        meter.steps_left.set(budget.steps);
        meter.rates.set(rates);
        meter.stack_floor.set(stack_address().saturating_sub(budget.stack_bytes));
    });
    // The validator keeps its state in the call, so nothing that outlives it is left inconsistent.
    let result = catch_unwind(AssertUnwindSafe(check));
    budget.steps = METER.with(|meter| meter.steps_left.get());
    result.map_err(|cause| match cause.downcast::<Exhausted>() {
        Ok(exhausted) => *exhausted,
        Err(other) => resume_unwind(other),
    })
}

struct Meter {
    steps_left: Cell<u64>,
    rates: Cell<Rates>,
    /// The stack grows downwards; a check that gets below this address is stopped.
    stack_floor: Cell<usize>,
}

thread_local! {
    // Thread-local, not in the node: the validator makes nodes of field names without a node to
    // copy from.
    static METER: Meter = const {
        Meter {
            steps_left: Cell::new(0),
            rates: Cell::new(Rates { value: 1, name: 1, text: 1 }),
            stack_floor: Cell::new(0),
        }
    };
}

fn stack_address() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here) as usize
}

fn charge(steps: impl FnOnce(Rates) -> u64) {
    METER.with(|meter| {
        let left = meter.steps_left.get().checked_sub(steps(meter.rates.get()));
        match left {
            Some(left) if stack_address() > meter.stack_floor.get() => meter.steps_left.set(left),
            Some(_) | None => {
                meter.steps_left.set(left.unwrap_or(0));
                // Not a panic: no hook runs, and nothing is logged.
                resume_unwind(Box::new(Exhausted))
            }
        }
    });
}

/// One read in constant time.
fn charge_one() {
    charge(|_| 1);
}

/// Text that is read: patterns are matched in linear time.
fn charge_text(bytes: usize) {
    charge(|rates| 1 + rates.text * (bytes as u64 / BYTES_PER_STEP));
}

const BYTES_PER_STEP: u64 = 32;

/// Payloads as `serde_json` represents them, with each read counted.
pub(super) struct Metered;

#[derive(Clone, Copy)]
pub(super) struct MeteredValue<'a>(pub(super) &'a Value);

impl Json for Metered {
    type Node<'a> = MeteredValue<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    // The same value as in the validator's own representation.
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        ask: impl FnOnce(MeteredValue<'_>) -> T,
    ) -> T {
        charge_text(string.len());
        *buffer = Value::String(string.to_owned());
        ask(MeteredValue(buffer))
    }
}

impl<'a> Node<'a, Metered> for MeteredValue<'a> {
    type Object = &'a Map<String, Value>;
    type Array = &'a [Value];
    type Number = &'a Number;

    fn as_object(&self) -> Option<Self::Object> {
        charge_one();
        self.0.as_object()
    }

    fn as_array(&self) -> Option<Self::Array> {
        charge_one();
        self.0.as_array().map(Vec::as_slice)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        charge_text(text.map_or(0, str::len));
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        charge_one();
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        charge_one();
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        charge_one();
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        charge_one();
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        charge_comparison(self.0, expected);
        cmp::equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        charge_one();
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        charge_one();
        Some(NodeIdentity::new(ptr::from_ref(self.0) as usize))
    }
}

/// Values of different kinds or lengths differ at once; others are compared in full.
fn charge_comparison(value: &Value, expected: &Value) {
    match (value, expected) {
        (Value::Array(items), Value::Array(wanted)) if items.len() == wanted.len() => {
            charge_whole(value);
        }
        (Value::Object(fields), Value::Object(wanted)) if fields.len() == wanted.len() => {
            charge_whole(value);
        }
        (Value::String(_), Value::String(_)) => charge_whole(value),
        _ => charge_one(),
    }
}

/// Everything in `value` is read.
fn charge_whole(value: &Value) {
    let text = value.as_str();
    charge_text(text.map_or(0, str::len));
    for item in value.as_array().into_iter().flatten() {
        charge_whole(item);
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        charge_text(name.len());
        charge_whole(value);
    }
}

impl<'a> Object<'a, Metered> for &'a Map<String, Value> {
    type Node = MeteredValue<'a>;
    type MemberName = &'a str;
    type MembersIter = iter::Map<serde_json::map::Iter<'a>, fn(Field<'a>) -> MeteredField<'a>>;

    fn len(&self) -> usize {
        charge_one();
        Map::len(self)
    }

    fn get(&self, key: &String) -> Option<MeteredValue<'a>> {
        charge(|rates| rates.value);
        Map::get(self, key).map(MeteredValue)
    }

    fn members(&self) -> Self::MembersIter {
        charge_one();
        self.iter().map(|(name, value)| {
            charge(|rates| {
                rates.value + rates.name * (1 + rates.text * (name.len() as u64 / BYTES_PER_STEP))
            });
            (name, MeteredValue(value))
        })
    }
}

type Field<'a> = (&'a String, &'a Value);
type MeteredField<'a> = (&'a str, MeteredValue<'a>);

impl<'a> Array<'a, Metered> for &'a [Value] {
    type Node = MeteredValue<'a>;
    type ElementsIter = iter::Map<slice::Iter<'a, Value>, fn(&'a Value) -> MeteredValue<'a>>;

    fn len(&self) -> usize {
        charge_one();
        <[Value]>::len(self)
    }

    fn elements(&self) -> Self::ElementsIter {
        charge_one();
        self.iter().map(|item| {
            charge(|rates| rates.value);
            MeteredValue(item)
        })
    }

    fn is_unique(&self) -> bool {
        self.iter().for_each(charge_whole);
        unique::is_unique(self)
    }
}
